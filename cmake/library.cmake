# libtarry: the rooms up to lib as a shared library that exports tarry_* alone, and as one object in an archive that does the same.
set(LIBRARY_ROOMS lib local memory feed store engine net queue wheel job base)
foreach(ROOM ${LIBRARY_ROOMS})
    set_target_properties(${ROOM} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endforeach()

add_library(tarry_shared SHARED $<TARGET_OBJECTS:lib>)
target_link_libraries(tarry_shared PRIVATE lib)
target_link_options(tarry_shared PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/src/library/lib/tarry.map
                    -Wl,--exclude-libs,ALL -Wl,--no-undefined -Wl,--as-needed -Wl,--wrap=__assert_fail)
if(TARRY_SANITIZE)
    target_link_options(tarry_shared PRIVATE -Wl,-z,undefs) # what the sanitizer defines is the program's
endif()
set_target_properties(tarry_shared PROPERTIES OUTPUT_NAME tarry SOVERSION 1 VERSION ${PROJECT_VERSION}
                      LINK_DEPENDS ${CMAKE_SOURCE_DIR}/src/library/lib/tarry.map)

set(LIBRARY_ARCHIVES)
foreach(ROOM ${LIBRARY_ROOMS})
    list(APPEND LIBRARY_ARCHIVES $<TARGET_FILE:${ROOM}>)
endforeach()
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/libtarry.a
                   COMMAND ${CMAKE_LINKER} -r --wrap=__assert_fail -o tarry.o --whole-archive $<TARGET_FILE:lib> --no-whole-archive
                           --start-group ${LIBRARY_ARCHIVES} --end-group
                   COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=tarry_* tarry.o
                   COMMAND ${CMAKE_COMMAND} -E rm -f libtarry.a
                   COMMAND ${CMAKE_AR} rcsD libtarry.a tarry.o
                   DEPENDS ${LIBRARY_ROOMS} ${LIBRARY_ARCHIVES}
                   WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
                   VERBATIM)
add_custom_target(tarry_static ALL DEPENDS ${CMAKE_BINARY_DIR}/libtarry.a)

# For those who link with it: manual pages, pkg-config and find_package(tarry).
include(GNUInstallDirs)
find_program(PYTHON python3)
if(PYTHON)
    add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/man3/tarry.3
                       COMMAND ${CMAKE_COMMAND} -E rm -rf ${CMAKE_BINARY_DIR}/man3
                       COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/scripts/man3 ${CMAKE_BINARY_DIR}/man3
                       DEPENDS ${CMAKE_SOURCE_DIR}/scripts/man3 ${CMAKE_SOURCE_DIR}/include/tarry.h ${CMAKE_SOURCE_DIR}/src/library/lib/code.c
                       VERBATIM)
    add_custom_target(tarry_man DEPENDS ${CMAKE_BINARY_DIR}/man3/tarry.3)
    add_dependencies(tarry_shared tarry_man)
    install(DIRECTORY ${CMAKE_BINARY_DIR}/man3 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT library)
endif()
include(CMakePackageConfigHelpers)
file(RELATIVE_PATH LIBRARY_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_SOURCE_DIR}/cmake/tarry.pc.in ${CMAKE_BINARY_DIR}/tarry.pc @ONLY)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/tarry-config.cmake.in ${CMAKE_BINARY_DIR}/tarry-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tarry
                              PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tarry-config-version.cmake COMPATIBILITY SameMinorVersion)
install(TARGETS tarry_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(FILES include/tarry.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
install(FILES ${CMAKE_BINARY_DIR}/libtarry.a DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(FILES ${CMAKE_BINARY_DIR}/tarry.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
install(FILES ${CMAKE_BINARY_DIR}/tarry-config.cmake ${CMAKE_BINARY_DIR}/tarry-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tarry COMPONENT library)
