package io.tarry;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class TarryExceptionTest {
    @ParameterizedTest
    @CsvSource({
        "404,not_found,NotFound", "409,leased,Conflict", "409,dead,Conflict", "409,conflict,Conflict", "0,lease_ended,LeaseEnded", "409,lease_ended,LeaseEnded",
        "400,bad_topic,Refused", "413,body_too_big,Refused", "414,target_too_long,Refused", "415,coding_unknown,Refused", "431,header_too_big,Refused",
        "401,unauthorized,Denied", "403,forbidden,Denied", "507,topic_full,Full", "507,caller_full,Full", "0,group_full,Full", "507,no_space,Full", "0,memory,Full",
        "429,too_many_requests,Unavailable", "503,'',Unavailable", "502,'',Unavailable", "500,'',TarryException", "0,bad_topic,Refused",
    })
    void eachCodeHasItsKind(int status, String code, String kind) {
        TarryException found = TarryException.of(status, Map.of("code", code, "detail", "why", "state", "leased"), null);
        assertEquals(kind, found.getClass().getSimpleName());
        assertEquals(code, found.code());
        assertEquals("leased", found.state().orElse(""));
        assertEquals(code.isEmpty() ? "why" : code + ": why", found.getMessage());
    }
}
