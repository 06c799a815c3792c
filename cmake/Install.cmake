# make install: the program, its documentation and bash completion.
include(GNUInstallDirs)
install(TARGETS darkformer RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The completion script comes from the program that is installed.
set(completions ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(CODE "
  execute_process(COMMAND $<TARGET_FILE:darkformer> completion bash COMMAND_ERROR_IS_FATAL ANY
    OUTPUT_FILE ${PROJECT_BINARY_DIR}/darkformer.bash)")
install(FILES ${PROJECT_BINARY_DIR}/darkformer.bash DESTINATION ${completions} RENAME darkformer)
