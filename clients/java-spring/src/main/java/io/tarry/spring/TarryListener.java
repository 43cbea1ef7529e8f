package io.tarry.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * A method of a bean that works on jobs: {@code @TarryListener(topic = "orders", concurrency = 4) void close(Job job)}. It returns: done. It throws
 * {@link io.tarry.Retry}, {@link io.tarry.Reject} or anything else: not done. A transaction of the method's is committed before the job is acked.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface TarryListener {
    /** One, or several of which the first is served first. {@code ${…}} is resolved. */
    String[] topic();

    /** The most parallel jobs. */
    int concurrency() default 10;

    /** As Spring Boot writes a duration. It is extended for as long as the method works. */
    String lease() default "60s";
}
