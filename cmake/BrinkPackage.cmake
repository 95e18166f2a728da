# What `cpack` makes of the tree: a Debian package. tools/package calls it and makes the other forms.
include(GNUInstallDirs)
install(FILES ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/packaging/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/brink)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/brink/docs)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/examples/ DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/brink/examples)
install(FILES ${CMAKE_SOURCE_DIR}/packaging/daemonset.yaml DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/brink/examples)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME brink)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "brink authors <authors@brink.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "branch records with eBPF, with and without branch hardware")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "Takes the branch records of CPUs that have them (LBR, BRBE, BRS), and executes the next branches of\nsampled threads in BPF where there are none: profiles for optimisers, reports, branch stacks at events,\ncontrol-flow integrity and causes of latency, as perf.data that other tools read.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# dpkg of Debian 12 takes zstd and xz; zstd packs this binary in a tenth of the time.
include(CPack)
