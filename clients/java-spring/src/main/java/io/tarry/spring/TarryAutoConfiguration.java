package io.tarry.spring;

import io.tarry.Client;
import io.tarry.Codec;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.context.properties.PropertyMapper;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** A client with the codec of the application, if there is one; the listeners, and, if transactions are available, a template that pushes after them. A bean of the application's goes first. */
@AutoConfiguration
@EnableConfigurationProperties(TarryProperties.class)
public class TarryAutoConfiguration {
    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    public Client tarryClient(TarryProperties properties, ObjectProvider<Codec> codec) {
        Client.Builder builder = Client.builder();
        PropertyMapper given = PropertyMapper.get().alwaysApplyingWhenNonNull();
        given.from(properties::url).to(builder::url);
        given.from(properties::token).to(builder::token);
        given.from(properties::timeout).to(builder::timeout);
        given.from(properties::retryFor).to(builder::retryFor);
        return builder.codec(codec.getIfAvailable()).build();
    }

    @Bean
    @ConditionalOnMissingBean
    public TarryListeners tarryListeners(ConfigurableListableBeanFactory beans, Client client, TarryProperties properties) {
        return new TarryListeners(beans, client, properties.grace(), properties.autoStartup());
    }

    /** A separate configuration, because spring-tx may be absent. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(name = "org.springframework.transaction.support.TransactionSynchronization")
    static class WithTransactions {
        @Bean
        @ConditionalOnMissingBean
        TarryTemplate tarryTemplate(Client client) {
            return new TarryTemplate(client);
        }
    }
}
