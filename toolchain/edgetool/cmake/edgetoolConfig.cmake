# edgetool in a firmware build:
#
#   find_package(edgetool REQUIRED)
#   edgetool_add_model(<target> MODEL <file> TARGET <name or file.toml>
#                      [NAME <name>] [RUNTIME <runtime>] [KERNELS <kernels>] [SRAM <size>] [FLASH <size>]
#                      [CALIBRATION <file>] [CUSTOM_OPERATORS <file>] [DATA array|incbin]
#                      [RUNNER] [PROFILE] [OPTIONS <option>...])
#
# Converts MODEL (.h5, .keras, SavedModel directory or .tflite) while the target is built, again whenever a file that
# was read has changed, and adds what comes out to the target: NAME.h and the model's data; with RUNNER the C++ class of
# NAME_runner.h, for which the target links TFLM; with PROFILE also the program of NAME_profile.cc, its main() included.
# With RUNTIME native, it adds NAME.c and NAME_weights.c instead, with PROFILE also NAME_profile.c, and links the kernels
# that they call: a library for each target, which is compiled with the options of the target. What does not fit, or
# cannot run, fails the build. Relative paths, and edgetool.toml, are those of the current source directory. NAME is the
# model's file name when not given. OPTIONS are further ones of `edgetool convert`.
#
# EDGETOOL_EXECUTABLE is the program that runs: a cache variable, found beside this package or on PATH.

if(CMAKE_VERSION VERSION_LESS 3.20)
  set(edgetool_FOUND FALSE)
  set(edgetool_NOT_FOUND_MESSAGE "edgetool needs CMake 3.20 or later, this is ${CMAKE_VERSION}")
  return()
endif()
cmake_policy(VERSION 3.20...3.31) # the functions below keep these policies: CMP0116 for their depfiles

set(_edgetool_beside "")
if(CMAKE_CURRENT_LIST_DIR MATCHES "-packages/edgetool/cmake$") # PREFIX/lib/python3.x/site-packages/edgetool/cmake
  set(_edgetool_beside HINTS "${CMAKE_CURRENT_LIST_DIR}/../../../../../bin")
endif()
find_program(
  EDGETOOL_EXECUTABLE edgetool
  ${_edgetool_beside}
  NO_CMAKE_FIND_ROOT_PATH
  DOC "The program edgetool, which converts models"
)
unset(_edgetool_beside)
if(NOT EDGETOOL_EXECUTABLE)
  set(edgetool_FOUND FALSE)
  set(edgetool_NOT_FOUND_MESSAGE
      "the program edgetool is not on PATH: activate its virtual environment, or set -DEDGETOOL_EXECUTABLE=/path/to/edgetool"
  )
  return()
endif()
# Another version of edgetool may write other files: models are converted again when it changes.
set(EDGETOOL_VERSION_FILE "${CMAKE_CURRENT_LIST_DIR}/../__init__.py")
cmake_path(NORMAL_PATH EDGETOOL_VERSION_FILE)
set(EDGETOOL_KERNELS_DIR "${CMAKE_CURRENT_LIST_DIR}/../codegen/native/c")
cmake_path(NORMAL_PATH EDGETOOL_KERNELS_DIR)

function(edgetool_add_model target)
  set(context "edgetool_add_model(${target} ...)")
  set(values MODEL TARGET NAME RUNTIME KERNELS SRAM FLASH CALIBRATION CUSTOM_OPERATORS DATA)
  cmake_parse_arguments(PARSE_ARGV 1 arg "RUNNER;PROFILE" "${values}" "OPTIONS")
  if(DEFINED arg_UNPARSED_ARGUMENTS)
    list(JOIN arg_UNPARSED_ARGUMENTS ", " unknown)
    message(FATAL_ERROR "${context}: unknown arguments: ${unknown}")
  endif()
  if(DEFINED arg_KEYWORDS_MISSING_VALUES)
    list(JOIN arg_KEYWORDS_MISSING_VALUES ", " missing)
    message(FATAL_ERROR "${context}: no value for ${missing}")
  endif()
  foreach(needed MODEL TARGET)
    if("${arg_${needed}}" STREQUAL "")
      message(FATAL_ERROR "${context}: ${needed} is missing")
    endif()
  endforeach()
  foreach(option IN LISTS arg_OPTIONS)
    if(option MATCHES "^(-o.*|(--output|--name|--project|--data|--profile|--depfile|--no-kernels)(=.*)?|(--runtime=)?native)$")
      message(FATAL_ERROR "${context}: OPTIONS cannot have ${option}: the build decides it")
    endif()
  endforeach()
  _edgetool_check_target(${target} "${context}")

  # What is read: absolute paths, known to the build before the first depfile is there.
  set(read "${EDGETOOL_VERSION_FILE}")
  set(files MODEL CALIBRATION CUSTOM_OPERATORS)
  set(device "${arg_TARGET}")
  if(arg_TARGET MATCHES "\\.toml$")
    list(APPEND files TARGET)
  endif()
  foreach(kind IN LISTS files)
    if(NOT "${arg_${kind}}" STREQUAL "")
      _edgetool_find_file(arg_${kind} "${context}: ${kind}")
      list(APPEND read "${arg_${kind}}")
    endif()
  endforeach()

  if("${arg_NAME}" STREQUAL "")
    cmake_path(GET arg_MODEL STEM LAST_ONLY arg_NAME)
    string(REGEX REPLACE "[ ._-]+" "_" arg_NAME "${arg_NAME}")
    string(REGEX REPLACE "^_|_$" "" arg_NAME "${arg_NAME}")
  endif()
  string(LENGTH "${arg_NAME}" length)
  if(NOT arg_NAME MATCHES "^[A-Za-z](_?[A-Za-z0-9])*$" OR length GREATER 31)
    message(FATAL_ERROR "${context}: '${arg_NAME}' is no C name of up to 31 characters; give another with NAME")
  endif()

  set(native FALSE)
  if("${arg_RUNTIME}" STREQUAL "native")
    set(native TRUE)
    foreach(other DATA KERNELS CUSTOM_OPERATORS RUNNER)
      if(arg_${other})
        message(FATAL_ERROR "${context}: ${other} does not apply to RUNTIME native")
      endif()
    endforeach()
  endif()
  if("${arg_DATA}" STREQUAL "")
    set(arg_DATA array)
  elseif(NOT arg_DATA MATCHES "^(array|incbin)$")
    message(FATAL_ERROR "${context}: DATA is array or incbin, not '${arg_DATA}'")
  endif()
  set(languages C)
  if(arg_DATA STREQUAL "incbin")
    set(languages ASM)
  endif()
  set(project header)
  if(arg_RUNNER OR arg_PROFILE)
    set(project plain)
    if(NOT native)
      list(APPEND languages CXX)
    endif()
  endif()
  get_property(enabled GLOBAL PROPERTY ENABLED_LANGUAGES)
  foreach(language IN LISTS languages)
    if(NOT language IN_LIST enabled)
      message(FATAL_ERROR "${context}: the project needs the language ${language}: project(... LANGUAGES ... ${language})")
    endif()
  endforeach()

  set(folder "${CMAKE_CURRENT_BINARY_DIR}/edgetool/${target}/${arg_NAME}")
  set(path "${folder}/${arg_NAME}")
  set(others "${path}.h" "${path}_model.h")
  set(compiled "${path}_model.c")
  if(native)
    set(others "${path}.h" "${path}_weights.h")
    set(compiled "${path}.c" "${path}_weights.c")
  elseif(arg_DATA STREQUAL "incbin")
    set(compiled "${path}_model.S")
    set_property(SOURCE "${compiled}" APPEND PROPERTY OBJECT_DEPENDS "${path}.tflite")
  endif()
  set(written "${path}.json")
  set(command "${EDGETOOL_EXECUTABLE}" convert "${arg_MODEL}" --target "${arg_TARGET}" --name "${arg_NAME}")
  list(APPEND command --output "${folder}" --project ${project} --data ${arg_DATA} --strict --force --quiet)
  if(native)
    list(APPEND command --no-kernels)
    _edgetool_link_kernels(${target})
  endif()
  foreach(option RUNTIME KERNELS SRAM FLASH CALIBRATION CUSTOM_OPERATORS)
    if(NOT "${arg_${option}}" STREQUAL "")
      string(TOLOWER "${option}" spelled)
      string(REPLACE "_" "-" spelled "${spelled}")
      list(APPEND command "--${spelled}" "${arg_${option}}")
    endif()
  endforeach()
  set(suffix cc)
  if(native)
    set(suffix c)
  elseif(project STREQUAL "plain")
    list(APPEND others "${path}_ops.h" "${path}_runner.h")
    list(APPEND compiled "${path}_runner.cc")
  endif()
  if(project STREQUAL "plain")
    list(APPEND written "${folder}/main.${suffix}")
  endif()
  if(arg_PROFILE)
    list(APPEND command --profile)
    list(APPEND compiled "${path}_profile.${suffix}")
  endif()

  # Every file of the depfile's rule is an output here; Ninja wants the same one first.
  add_custom_command(
    OUTPUT "${path}.tflite" ${others} ${compiled} ${written}
    COMMAND ${command} --depfile "${path}.d" ${arg_OPTIONS}
    DEPENDS ${read}
    DEPFILE "${path}.d"
    WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
    COMMENT "edgetool convert: ${arg_NAME} for ${device}"
    VERBATIM
  )
  target_sources(${target} PRIVATE ${others} ${compiled})
  target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${folder}>")
endfunction()

# Link the kernels of native code. Each is an object of a library: programs contain those that their models call.
function(_edgetool_link_kernels target)
  set(library "${target}_edgetool_kernels")
  if(TARGET ${library})
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS "${EDGETOOL_KERNELS_DIR}/*.c")
  add_library(${library} STATIC EXCLUDE_FROM_ALL ${sources})
  target_include_directories(${library} PUBLIC "$<BUILD_INTERFACE:${EDGETOOL_KERNELS_DIR}>")
  target_compile_features(${library} PUBLIC c_std_99)
  target_compile_options(${library} PRIVATE "$<TARGET_PROPERTY:${target},COMPILE_OPTIONS>")
  target_compile_definitions(${library} PRIVATE "$<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>")
  get_target_property(independent ${target} POSITION_INDEPENDENT_CODE)
  get_target_property(type ${target} TYPE)
  if(independent OR type MATCHES "^(SHARED|MODULE)_LIBRARY$")
    set_target_properties(${library} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
  target_link_libraries(${target} PRIVATE ${library})
endfunction()

# The target is one to which sources can be added here.
function(_edgetool_check_target target context)
  if(NOT TARGET ${target})
    message(FATAL_ERROR "${context}: there is no target ${target}; add_executable or add_library comes first")
  endif()
  get_target_property(type ${target} TYPE)
  get_target_property(directory ${target} SOURCE_DIR)
  if(NOT type MATCHES "^(EXECUTABLE|(STATIC|SHARED|MODULE|OBJECT)_LIBRARY)$")
    message(FATAL_ERROR "${context}: nothing is compiled for the target ${target}")
  endif()
  if(NOT directory STREQUAL CMAKE_CURRENT_SOURCE_DIR)
    message(FATAL_ERROR "${context}: call it in ${directory}, where the target is made")
  endif()
endfunction()

# Make the path in the variable absolute; the file is there, or the build makes it.
function(_edgetool_find_file variable context)
  cmake_path(ABSOLUTE_PATH ${variable} BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE OUTPUT_VARIABLE path)
  string(REGEX REPLACE "(.)/$" "\\1" path "${path}")
  get_source_file_property(generated "${path}" GENERATED)
  if(NOT EXISTS "${path}" AND NOT generated)
    message(FATAL_ERROR "${context}: there is no file ${path}")
  endif()
  set(${variable} "${path}" PARENT_SCOPE)
endfunction()
