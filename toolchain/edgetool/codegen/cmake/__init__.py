"""CMake files for the generated C and C++ files."""
