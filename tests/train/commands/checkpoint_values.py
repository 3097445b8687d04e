"""The numbers of a checkpoint in full precision, by the HDF5 library of the system, where it has one."""

import array
import ctypes
import ctypes.util

HID = ctypes.c_int64


def load_library():
    for name in ("hdf5_serial", "hdf5"):
        path = ctypes.util.find_library(name)
        if path is not None:
            library = ctypes.CDLL(path)
            for function in ("H5Fopen", "H5Oopen", "H5Dopen2", "H5Dget_space"):
                getattr(library, function).restype = HID
            library.H5Sget_simple_extent_npoints.restype = ctypes.c_int64
            library.H5Lget_name_by_idx.restype = ctypes.c_ssize_t
            library.H5open()
            library.H5Eset_auto2(HID(0), None, None)  # what is asked for and not there is no error here
            return library
    return None


LIBRARY = load_library()


def names_in(group):
    names, text = [], ctypes.create_string_buffer(1024)
    by_name, rising = 0, 0
    while LIBRARY.H5Lget_name_by_idx(HID(group), b".", by_name, rising, ctypes.c_uint64(len(names)), text,
                                     ctypes.c_size_t(len(text)), HID(0)) >= 0:
        names.append(text.value)
    return names


def read(dataset):
    space = LIBRARY.H5Dget_space(HID(dataset))
    values = array.array("d", bytes(8 * LIBRARY.H5Sget_simple_extent_npoints(HID(space))))
    double = HID.in_dll(LIBRARY, "H5T_NATIVE_DOUBLE_g")
    into = (ctypes.c_double * len(values)).from_buffer(values)
    failed = LIBRARY.H5Dread(HID(dataset), double, HID(0), HID(0), HID(0), into) < 0
    LIBRARY.H5Sclose(HID(space))
    if failed:
        raise ValueError("a dataset cannot be read")
    return values


def collect(place, prefix, values):
    for name in names_in(place):
        path = f"{prefix}{name.decode()}"
        dataset = LIBRARY.H5Dopen2(HID(place), name, HID(0))
        if dataset >= 0:
            values[path] = read(dataset)
            LIBRARY.H5Dclose(HID(dataset))
            continue
        group = LIBRARY.H5Oopen(HID(place), name, HID(0))
        collect(group, path + "/", values)
        LIBRARY.H5Oclose(HID(group))


def checkpoint_values(path):
    """Arrays by name ("tensors/parameters/…", "integers/step", "reals/train_loss"); None without an HDF5 library."""
    if LIBRARY is None:
        return None
    file = LIBRARY.H5Fopen(str(path).encode(), 0, HID(0))
    if file < 0:
        raise ValueError(f"{path} is no HDF5 file")
    values = {}
    collect(file, "", values)
    LIBRARY.H5Fclose(HID(file))
    return values
