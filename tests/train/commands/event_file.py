"""A small reader of TensorBoard event files, independent of heed and of TensorBoard.

Events are dictionaries: field number -> list of values, which are integers or bytes.
"""

import struct

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """The contents of the records; checks both checksums of each. An incomplete last record is left out."""
    while len(data) >= 12:
        length, crc = struct.unpack_from("<QI", data)
        assert crc == masked_crc(data[:8]), "the checksum of a length is wrong"
        if len(data) < 16 + length:
            return
        content, (crc,) = data[12 : 12 + length], struct.unpack_from("<I", data, 12 + length)
        assert crc == masked_crc(content), "the checksum of an event is wrong"
        yield content
        data = data[16 + length :]


def message(data):
    fields, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            value |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if data[at - 1] < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            size = {1: lambda: 8, 2: varint, 5: lambda: 4}[key & 7]()
            value, at = data[at : at + size], at + size
            assert len(value) == size
        fields.setdefault(key >> 3, []).append(value)
    assert at == len(data)
    return fields


def events(path):
    return [message(record) for record in records(path.read_bytes())]


def scalars(folder):
    """Tag -> list of (step, value), as TensorBoard reads a run: the files in the order of their names; every
    SessionLog START but the first drops the steps from its own on."""
    found, starts = {}, 0
    for path in sorted(folder.iterdir()):
        for event in events(path):
            step = event.get(2, [0])[0]
            if 7 in event and message(event[7][0])[1] == [1]:
                starts += 1
                if starts > 1:
                    found = {tag: [point for point in points if point[0] < step] for tag, points in found.items()}
            for value in message(event[5][0])[1] if 5 in event else []:
                value = message(value)
                if 2 in value:
                    found.setdefault(value[1][0].decode(), []).append((step, struct.unpack("<f", value[2][0])[0]))
    return found


def hparams(path):
    """The hyperparameters of the session start, and the status of the session end or None."""
    start, status = {}, None
    for event in events(path):
        for value in message(event[5][0])[1] if 5 in event else []:
            value = message(value)
            if 9 not in value:
                continue
            plugin = message(message(value[9][0])[1][0])
            assert plugin[1] == [b"hparams"]
            content = message(plugin[2][0])
            if value[1] == [b"_hparams_/session_end_info"]:
                status = message(content[4][0])[1][0]
                continue
            assert value[1] == [b"_hparams_/session_start_info"]
            for entry in message(content[3][0])[1]:
                entry = message(entry)
                ((kind, (content_of,)),) = message(entry[2][0]).items()
                start[entry[1][0].decode()] = {
                    2: lambda: struct.unpack("<d", content_of)[0],
                    3: lambda: content_of.decode(),
                    4: lambda: bool(content_of),
                }[kind]()
    return start, status
