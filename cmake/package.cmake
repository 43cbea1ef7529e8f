# What `cmake --install` puts where, and the packages made of it.
include(GNUInstallDirs)
install(TARGETS tarry RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
file(GLOB PAGES ${CMAKE_SOURCE_DIR}/docs/*.md)
install(FILES ${PAGES} DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)

set(CPACK_PACKAGE_NAME tarry)
set(CPACK_PACKAGE_VENDOR "the tarry authors")
set(CPACK_PACKAGE_CONTACT "the tarry authors <tarry@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "durable delay queue: hand it a job now, get it back when it is due")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates) # for callbacks to https
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)

# The unit and the configuration stand at absolute places and belong to a system's package, not to `make install`.
option(TARRY_SYSTEM_FILES "install the systemd unit and /etc/tarry/tarry.conf too" OFF)
if(TARRY_SYSTEM_FILES)
    install(FILES packaging/tarry.service DESTINATION /lib/systemd/system)
    install(FILES packaging/tarry.conf DESTINATION /etc/tarry)
    set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/packaging/conffiles)
else()
    install(FILES packaging/tarry.service packaging/tarry.conf DESTINATION ${CMAKE_INSTALL_DATADIR}/tarry)
endif()
# Packing builds what is missing, but only the program.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
include(CPack)
