# Cross-compilation for arm64 Linux. HEED_SYSROOT is the folder that sysroot.sh has filled. If it is empty, the arm64
# libraries must be installed on this machine (apt-get install libfmt-dev:arm64 ...).
set(HEED_SYSROOT "" CACHE PATH "Folder with the arm64 libraries")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HEED_SYSROOT)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_SYSROOT ${HEED_SYSROOT})
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L ${HEED_SYSROOT}/)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)  # programs of this machine, such as Python
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
# pkg-config does not search CMAKE_SYSROOT.
set(ENV{PKG_CONFIG_LIBDIR}
  ${HEED_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${HEED_SYSROOT}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${HEED_SYSROOT})
