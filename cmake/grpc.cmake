# The messages of proto/: their code by protoc-c, and the descriptors of all files in one, for the reflection. The same
# file is the script that writes the messages of queue.proto without its service while building (-P): protoc-c would make
# C functions of its methods, and `return` is not a name.
if(CMAKE_SCRIPT_MODE_FILE)
    file(READ ${INPUT} TEXT)
    string(REGEX REPLACE "service Queue {[^}]*}" "" TEXT "${TEXT}")
    file(WRITE ${OUTPUT} "${TEXT}")
    return()
endif()

pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)
find_program(PROTOC_C protoc-c REQUIRED)

set(TARRY_GRPC_DESCRIPTORS ${CMAKE_BINARY_DIR}/generated/tarry.pb)
set(PROTOS google/protobuf/duration google/protobuf/timestamp tarry/v1/queue)
set(PROTOS_DESCRIBED google/rpc/error_details grpc/health/v1/health grpc/reflection/v1/reflection grpc/reflection/v1alpha/reflection)
set(PROTO_SOURCES)
set(PROTO_FILES)
foreach(PROTO ${PROTOS})
    list(APPEND PROTO_SOURCES ${CMAKE_BINARY_DIR}/generated/${PROTO}.pb-c.c)
endforeach()
foreach(PROTO ${PROTOS} ${PROTOS_DESCRIBED})
    list(APPEND PROTO_FILES ${CMAKE_SOURCE_DIR}/proto/${PROTO}.proto)
endforeach()
list(TRANSFORM PROTOS APPEND .proto OUTPUT_VARIABLE PROTO_NAMES)
list(TRANSFORM PROTOS_DESCRIBED APPEND .proto OUTPUT_VARIABLE PROTO_NAMES_DESCRIBED)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated)
set(MESSAGES ${CMAKE_BINARY_DIR}/generated/messages)
add_custom_command(OUTPUT ${PROTO_SOURCES}
                   COMMAND ${CMAKE_COMMAND} -DINPUT=${CMAKE_SOURCE_DIR}/proto/tarry/v1/queue.proto
                           -DOUTPUT=${MESSAGES}/tarry/v1/queue.proto -P ${CMAKE_SOURCE_DIR}/cmake/grpc.cmake
                   COMMAND ${PROTOC_C} -I ${MESSAGES} -I ${CMAKE_SOURCE_DIR}/proto
                           --c_out=${CMAKE_BINARY_DIR}/generated ${PROTO_NAMES}
                   DEPENDS ${PROTO_FILES} ${CMAKE_SOURCE_DIR}/cmake/grpc.cmake
                   VERBATIM)
add_custom_command(OUTPUT ${TARRY_GRPC_DESCRIPTORS}
                   COMMAND ${PROTOC_C} -I ${CMAKE_SOURCE_DIR}/proto --include_imports
                           --descriptor_set_out=${TARRY_GRPC_DESCRIPTORS} ${PROTO_NAMES} ${PROTO_NAMES_DESCRIBED}
                   DEPENDS ${PROTO_FILES}
                   VERBATIM)
# The generated code is not checked as ours is.
add_library(grpc_messages STATIC ${PROTO_SOURCES})
target_include_directories(grpc_messages SYSTEM PUBLIC ${CMAKE_BINARY_DIR}/generated)
target_compile_options(grpc_messages PRIVATE -O2 -w)
target_link_libraries(grpc_messages PUBLIC PkgConfig::PROTOBUF_C)
