# Puts the files of a folder into TARGET for the console: each as it is and packed by gzip, with its type and a tag of its bytes.
#   tarry_console(TARGET FOLDER)   gives api/console_files.h with their table
# The same file is the script that makes the C file of one of them while building (-P).
if(CMAKE_SCRIPT_MODE_FILE)
    function(bytes_of FILE VARIABLE)
        file(READ ${FILE} BYTES HEX)
        string(REGEX REPLACE "(..)" "'\\\\x\\1'," BYTES "${BYTES}")
        string(REGEX REPLACE "('.x0a',)" "\\1\n" BYTES "${BYTES}")
        set(${VARIABLE} "${BYTES}" PARENT_SCOPE)
    endfunction()

    get_filename_component(NAME ${INPUT} NAME)
    get_filename_component(KIND ${INPUT} LAST_EXT)
    set(TYPE_.html "text/html; charset=utf-8")
    set(TYPE_.js "text/javascript; charset=utf-8")
    set(TYPE_.css "text/css; charset=utf-8")
    set(TYPE_.svg "image/svg+xml")
    if(NOT DEFINED TYPE_${KIND})
        message(FATAL_ERROR "the console has no content type for '${NAME}': name it in cmake/console.cmake")
    endif()
    # Without name and time: the same file is packed to the same bytes.
    execute_process(COMMAND ${GZIP} -9nc INPUT_FILE ${INPUT} OUTPUT_FILE ${OUTPUT}.gz COMMAND_ERROR_IS_FATAL ANY)
    bytes_of(${INPUT} PLAIN)
    bytes_of(${OUTPUT}.gz PACKED)
    file(SHA256 ${INPUT} TAG)
    string(SUBSTRING ${TAG} 0 24 TAG)
    file(WRITE ${OUTPUT} "#include \"api/console_files.h\"\n\nstatic const char plain[] = {\n${PLAIN}\n};\n"
         "static const char packed[] = {\n${PACKED}\n};\n"
         "const struct api_console_file ${SYMBOL} = {\"${NAME}\", \"${TYPE_${KIND}}\", \"${TAG}\", plain, packed, sizeof plain, sizeof packed};\n")
    return()
endif()

function(tarry_console TARGET FOLDER)
    find_program(GZIP gzip REQUIRED)
    file(GLOB FILES CONFIGURE_DEPENDS ${FOLDER}/*)
    set(DECLARED "/* Made by cmake/console.cmake. */\n#include \"api/console.h\"\n\n")
    set(ROWS "\n#define CONSOLE_FILES(ROW)")
    foreach(FILE ${FILES})
        get_filename_component(NAME ${FILE} NAME)
        string(MAKE_C_IDENTIFIER api_console_${NAME} SYMBOL)
        set(OUTPUT ${CMAKE_BINARY_DIR}/generated/api/${SYMBOL}.c)
        add_custom_command(OUTPUT ${OUTPUT}
                           COMMAND ${CMAKE_COMMAND} -DINPUT=${FILE} -DOUTPUT=${OUTPUT} -DSYMBOL=${SYMBOL} -DGZIP=${GZIP}
                                   -P ${CMAKE_SOURCE_DIR}/cmake/console.cmake
                           DEPENDS ${FILE} ${CMAKE_SOURCE_DIR}/cmake/console.cmake
                           VERBATIM)
        target_sources(${TARGET} PRIVATE ${OUTPUT})
        string(APPEND DECLARED "extern const struct api_console_file ${SYMBOL};\n")
        string(APPEND ROWS " \\\n    ROW(${SYMBOL})")
    endforeach()
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/api/console_files.h CONTENT "${DECLARED}${ROWS}\n" @ONLY)
endfunction()
