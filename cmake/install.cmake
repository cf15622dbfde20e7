# `make install`, `make deb`: what runs away from this tree. The binary finds PREFIX/share/wattle and PREFIX/lib/wattle beside
# itself (config/locate.cc).
install(TARGETS wattle RUNTIME DESTINATION bin)
install(TARGETS fake_nvml LIBRARY DESTINATION lib/wattle NAMELINK_SKIP)
if(WATTLE_TORCH)
  install(TARGETS wattle_neural_module LIBRARY DESTINATION lib/wattle)
endif()
install(DIRECTORY recipes scenarios specs profiles DESTINATION share/wattle)
install(FILES README.md LICENSE DESTINATION share/doc/wattle)
install(DIRECTORY docs/ DESTINATION share/doc/wattle PATTERN decisions EXCLUDE PATTERN img EXCLUDE)
install(DIRECTORY packaging/docker packaging/kubernetes DESTINATION share/doc/wattle/examples)
install(FILES packaging/wattle.toml packaging/grafana/wattle.json packaging/prometheus/wattle.rules.yml
  DESTINATION share/doc/wattle/examples)

# Made by the binary itself, so that they cannot disagree with its flags.
install(CODE [[
  set(root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
  set(binary "${root}/bin/wattle")
  file(MAKE_DIRECTORY ${root}/share/man/man1 ${root}/share/bash-completion/completions
    ${root}/share/zsh/vendor-completions ${root}/share/fish/vendor_completions.d ${root}/lib/systemd/system)
  execute_process(COMMAND ${binary} man --out ${root}/share/man/man1 COMMAND_ERROR_IS_FATAL ANY)
  foreach(shell_file IN ITEMS bash:bash-completion/completions/wattle zsh:zsh/vendor-completions/_wattle
      fish:fish/vendor_completions.d/wattle.fish)
    string(REPLACE ":" ";" parts ${shell_file})
    list(GET parts 0 shell)
    list(GET parts 1 path)
    execute_process(COMMAND ${binary} completion ${shell} OUTPUT_FILE ${root}/share/${path} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
]])
foreach(unit IN ITEMS wattle-gateway wattle-agent)
  install(CODE "set(unit ${unit})\nset(template ${PROJECT_SOURCE_DIR}/packaging/${unit}.service.in)")
  install(CODE [[
    set(BINARY "${CMAKE_INSTALL_PREFIX}/bin/wattle")
    configure_file(${template} "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib/systemd/system/${unit}.service" @ONLY)
  ]])
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME wattle)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The Wattle authors <wattle@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Energy- and carbon-aware control plane for LLM serving")
set(CPACK_SET_DESTDIR ON)  # so that the units name where it will be, not where it is packed
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES TRUE)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS ca-certificates)  # whom the carbon sources' TLS is checked against
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
include(CPack)
