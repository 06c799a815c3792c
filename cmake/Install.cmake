# make install: the program with its manual page and completion; the op library with headers and CMake files for C++;
# the Python package; the documentation.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(PublicHeaders)

install(TARGETS darkformer RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)  # Debian's name for it
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
  PATTERN __pycache__ EXCLUDE)

# The completion script and the manual page come from the program that is installed.
set(completions ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(CODE "
  execute_process(COMMAND $<TARGET_FILE:darkformer> completion bash COMMAND_ERROR_IS_FATAL ANY
    OUTPUT_FILE ${PROJECT_BINARY_DIR}/darkformer.bash)
  execute_process(COMMAND $<TARGET_FILE:darkformer> docs --man COMMAND_ERROR_IS_FATAL ANY
    OUTPUT_FILE ${PROJECT_BINARY_DIR}/darkformer.1)")
install(FILES ${PROJECT_BINARY_DIR}/darkformer.bash DESTINATION ${completions} RENAME darkformer)
install(FILES ${PROJECT_BINARY_DIR}/darkformer.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

# The op library, as darkformer::ops of find_package(darkformer).
set_target_properties(darkformer_ops_shared PROPERTIES EXPORT_NAME ops)
target_include_directories(darkformer_ops_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(darkformer_ops_shared INTERFACE cxx_std_20)
install(TARGETS darkformer_ops_shared EXPORT darkformerTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(header ${DARKFORMER_PUBLIC_HEADERS} ${DARKFORMER_INCLUDED_HEADERS})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/darkformer/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/darkformer/${folder})
endforeach()
set(cmake_files ${CMAKE_INSTALL_LIBDIR}/cmake/darkformer)
install(EXPORT darkformerTargets NAMESPACE darkformer:: DESTINATION ${cmake_files})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/darkformerConfig.cmake.in
  ${PROJECT_BINARY_DIR}/darkformerConfig.cmake INSTALL_DESTINATION ${cmake_files})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/darkformerConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/darkformerConfig.cmake ${PROJECT_BINARY_DIR}/darkformerConfigVersion.cmake
  DESTINATION ${cmake_files})

# The Python package, where Debian's python3 looks: packages below /usr are for all its versions, those elsewhere
# (/usr/local) for one. The prefix is known when it is installed.
execute_process(COMMAND ${SYSTEM_PYTHON3} -c "import sys; print('python%d.%d' % sys.version_info[:2])"
  OUTPUT_VARIABLE python_version OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
install(CODE "
  set(DARKFORMER_PYTHON lib/${python_version}/dist-packages)
  if(CMAKE_INSTALL_PREFIX MATCHES \"/usr/?$\")
    set(DARKFORMER_PYTHON lib/python3/dist-packages)
  endif()")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/darkformer DESTINATION "\${DARKFORMER_PYTHON}"
  FILES_MATCHING PATTERN "*.py")
