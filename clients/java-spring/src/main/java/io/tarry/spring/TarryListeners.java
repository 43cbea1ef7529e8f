package io.tarry.spring;

import io.tarry.Client;
import io.tarry.Job;
import io.tarry.Worker;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;
import org.springframework.aop.framework.autoproxy.AutoProxyUtils;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.context.SmartLifecycle;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.util.ClassUtils;
import org.springframework.util.ReflectionUtils;

/**
 * The workers of all methods with {@link TarryListener}. They start last and stop first, so that a job under way has its beans and its database to
 * its end.
 */
public class TarryListeners implements SmartLifecycle {
    private static final Log LOG = LogFactory.getLog(TarryListeners.class);

    private final ConfigurableListableBeanFactory beans;
    private final Client client;
    private final Duration grace;
    private final boolean autoStartup;
    private List<Worker> workers = List.of(); // under `this`
    private boolean isRunning;

    public TarryListeners(ConfigurableListableBeanFactory beans, Client client, Duration grace, boolean autoStartup) {
        this.beans = beans;
        this.client = client;
        this.grace = grace;
        this.autoStartup = autoStartup;
    }

    @Override
    public boolean isAutoStartup() {
        return autoStartup;
    }

    /** Creates all listeners before the first starts: an invalid one stops the application before a job is taken. */
    @Override
    public synchronized void start() {
        if (isRunning) {
            return;
        }
        List<Worker> made = new ArrayList<>();
        for (String name : beans.getBeanNamesForType(Object.class, false, false)) {
            Class<?> type = AutoProxyUtils.determineTargetClass(beans, name); // behind the proxy that @Transactional makes
            if (type != null) {
                methodsOf(ClassUtils.getUserClass(type)).forEach((method, listener) -> made.add(workerOf(beans.getBean(name), method, listener)));
            }
        }
        made.forEach(Worker::start);
        workers = made;
        isRunning = true;
    }

    @Override
    public synchronized boolean isRunning() {
        return isRunning;
    }

    @Override
    public void stop() {
        stopAll().join();
    }

    @Override
    public void stop(Runnable callback) {
        stopAll().thenRun(callback);
    }

    private synchronized CompletableFuture<Void> stopAll() {
        isRunning = false;
        CompletableFuture<?>[] ends = workers.stream().map(one -> one.stopAsync(grace)).toArray(CompletableFuture<?>[]::new);
        workers = List.of();
        return CompletableFuture.allOf(ends).exceptionally(fault -> null);
    }

    private static Map<Method, TarryListener> methodsOf(Class<?> type) {
        return MethodIntrospector.selectMethods(
                type, (MethodIntrospector.MetadataLookup<TarryListener>) method -> AnnotatedElementUtils.findMergedAnnotation(method, TarryListener.class));
    }

    private Worker workerOf(Object bean, Method found, TarryListener listener) {
        if (!Arrays.equals(found.getParameterTypes(), new Class<?>[] {Job.class})) {
            throw new IllegalStateException("cannot listen with '" + found.toGenericString() + "': give it one parameter, of io.tarry.Job");
        }
        Method method = AopUtils.selectInvocableMethod(found, bean.getClass());
        ReflectionUtils.makeAccessible(method);
        List<String> topics = Arrays.stream(listener.topic()).map(beans::resolveEmbeddedValue).toList();
        Worker worker = Worker.builder(client, topics, job -> call(bean, method, job))
                .concurrency(listener.concurrency())
                .lease(DurationStyle.detectAndParse(beans.resolveEmbeddedValue(listener.lease())))
                .grace(grace)
                .onError((error, what) -> LOG.warn("cannot " + what + " on " + topics, error))
                .build();
        worker.done().whenComplete((none, error) -> {
            if (error != null) {
                LOG.error("the listener on " + topics + " has ended", error);
            }
        });
        return worker;
    }

    private static void call(Object bean, Method method, Job job) throws Exception {
        try {
            method.invoke(bean, job);
        } catch (InvocationTargetException fault) {
            ReflectionUtils.rethrowException(fault.getTargetException());
        }
    }
}
