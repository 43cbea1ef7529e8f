# Makes a C file that holds the bytes of another file:
#   tarry_embed(TARGET INPUT HEADER SYMBOL)   gives SYMBOL_text[] and SYMBOL_bytes, declared in HEADER.
# The same file is the script that does it while building (-P), so nothing but cmake is needed.
if(CMAKE_SCRIPT_MODE_FILE)
    file(READ ${INPUT} HEX_BYTES HEX)
    string(REGEX REPLACE "(..)" "'\\\\x\\1'," HEX_BYTES "${HEX_BYTES}")
    string(REGEX REPLACE "('.x0a',)" "\\1\n" HEX_BYTES "${HEX_BYTES}")
    file(WRITE ${OUTPUT} "#include \"${HEADER}\"\n\n"
         "const char ${SYMBOL}_text[] = {\n${HEX_BYTES}\n};\n"
         "const size_t ${SYMBOL}_bytes = sizeof ${SYMBOL}_text;\n")
    return()
endif()

function(tarry_embed TARGET INPUT HEADER SYMBOL)
    set(OUTPUT ${CMAKE_BINARY_DIR}/generated/${SYMBOL}.c)
    add_custom_command(OUTPUT ${OUTPUT}
                       COMMAND ${CMAKE_COMMAND} -DINPUT=${INPUT} -DOUTPUT=${OUTPUT} -DHEADER=${HEADER}
                               -DSYMBOL=${SYMBOL} -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
                       DEPENDS ${INPUT} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
                       VERBATIM)
    target_sources(${TARGET} PRIVATE ${OUTPUT})
endfunction()
