package io.tarry.spring;

import java.time.Duration;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Settings under {@code tarry.}; unset ones have the client's default.
 *
 * @param url several, separated by commas, are tried in turn; else {@code TARRY_URL}
 * @param timeout of one request
 * @param retryFor how long a call is repeated before its failure is reported
 * @param grace time that running listeners have when the context closes; less than {@code spring.lifecycle.timeout-per-shutdown-phase}
 * @param autoStartup whether listeners start with the context
 */
@ConfigurationProperties("tarry")
public record TarryProperties(
        String url, String token, Duration timeout, Duration retryFor, @DefaultValue("20s") Duration grace, @DefaultValue("true") boolean autoStartup) {
    /** Omits the token: a program that prints properties must not print it. */
    @Override
    public String toString() {
        return "TarryProperties[url=" + url + ", timeout=" + timeout + ", retryFor=" + retryFor + ", grace=" + grace + ", autoStartup=" + autoStartup + "]";
    }
}
