package io.tarry;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;

/**
 * The Dubbo interface of mykit-delay on top of tarry. Only the bean changes; the code that pushes and deletes stays as it is:
 *
 * <pre>{@code
 * Client client = Client.builder().url("http://127.0.0.1:6355").build(); // the address of tarry serve --mykit
 * MykitDelayDubboInterface delay = MykitDelay.of(MykitDelayDubboInterface.class, client);
 * }</pre>
 *
 * The same object can be the service of a Dubbo provider, so that remote consumers also stay as they are. tarry's page "From mykit-delay" has the
 * rules of each call; they are those of its HTTP calls.
 *
 * <p>The library does not depend on mykit-delay: methods are found by their names. A job is any bean with {@code getTopic()},
 * {@code getId()} and so on. The class of the answers has the static methods {@code ok(Object)} and {@code error(String)}.
 */
public final class MykitDelay {
    private static final String[] JOB = {"topic", "id", "bizKey", "subtopic", "delay", "ttl", "createTime", "body", "status", "priority"};

    private final Client client;

    private MykitDelay(Client client) {
        this.client = client;
    }

    /**
     * An implementation of the interface. Its answers report every failure, as those of mykit-delay do; its calls throw nothing, unless a factory of the answers
     * does.
     *
     * @param type   the interface of mykit-delay
     * @param client a client of the address that is given to {@code tarry serve --mykit}
     * @throws IllegalArgumentException if the class of the answers of a call lacks {@code ok(Object)} or {@code error(String)}
     */
    public static <T> T of(Class<T> type, Client client) {
        MykitDelay delay = new MykitDelay(Objects.requireNonNull(client, "the client is missing"));
        for (Method call : type.getMethods()) {
            if (Modifier.isAbstract(call.getModifiers())) {
                factory(call.getReturnType(), "ok", Object.class);
                factory(call.getReturnType(), "error", String.class);
            }
        }
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (self, method, arguments) -> delay.invoke(self, method, arguments)));
    }

    private Object invoke(Object self, Method method, Object[] arguments) {
        Object argument = arguments == null ? null : arguments[0];
        switch (method.getName()) {
            case "hashCode":
                return System.identityHashCode(self);
            case "equals":
                return self == argument;
            case "toString":
                return "mykit-delay on tarry";
            default:
                return call(method, argument);
        }
    }

    private Object call(Method method, Object argument) {
        Class<?> answers = method.getReturnType();
        try {
            Map<String, Object> answer = Transport.await(client.transport.call(request(method.getName(), argument), Transport.Answer::json));
            if (Boolean.TRUE.equals(answer.get("success"))) {
                return make(answers, "ok", Object.class, answer.get("data"));
            }
            return make(answers, "error", String.class, String.valueOf(answer.get("message")));
        } catch (RuntimeException fault) {
            return make(answers, "error", String.class, Objects.requireNonNullElseGet(fault.getMessage(), fault::toString));
        }
    }

    private Transport.Request request(String name, Object argument) {
        switch (name) {
            case "push":
                return push(argument);
            case "delete":
            case "finish":
            case "reStoreJob":
                return get("/" + name + "?jobId=" + Api.quote(String.valueOf(argument)));
            case "reStore":
                return get("/reStore" + (argument == null ? "" : "?expire=" + argument));
            case "clearAll":
                return get("/clearAll");
            default:
                throw new IllegalArgumentException("tarry has no call '" + name + "' of mykit-delay");
        }
    }

    private Transport.Request get(String target) {
        return new Transport.Request("GET", target, client.transport);
    }

    /** Pushes the job under an id, so that a repeated call pushes no second job. */
    private Transport.Request push(Object job) {
        Map<String, Object> members = new LinkedHashMap<>();
        for (String name : JOB) {
            Object value = job == null ? null : property(job, name);
            if (value != null) {
                members.put(name, value instanceof Number ? value : value.toString());
            }
        }
        if (Objects.toString(members.get("id"), "").isEmpty()) {
            members.put("id", Api.newId(System.currentTimeMillis()));
        }
        return new Transport.Request("POST", "/push", client.transport).json(members);
    }

    /** The value of a property; null if the bean does not have it. */
    private static Object property(Object bean, String name) {
        try {
            Method getter = bean.getClass().getMethod("get" + Character.toUpperCase(name.charAt(0)) + name.substring(1));
            return getter.invoke(bean);
        } catch (NoSuchMethodException missing) {
            return null;
        } catch (IllegalAccessException | InvocationTargetException fault) {
            throw new IllegalArgumentException("cannot read '" + name + "' of the job: " + (fault.getCause() == null ? fault : fault.getCause()), fault);
        }
    }

    /** The static method of the answers that makes one. */
    private static Method factory(Class<?> answers, String method, Class<?> parameter) {
        try {
            Method factory = answers.getMethod(method, parameter);
            if (!Modifier.isStatic(factory.getModifiers())) {
                throw new IllegalArgumentException(answers.getName() + "." + method + " is not static");
            }
            return factory;
        } catch (NoSuchMethodException missing) {
            throw new IllegalArgumentException(answers.getName() + " lacks the static method " + method + "(" + parameter.getSimpleName() + ")", missing);
        }
    }

    private static Object make(Class<?> answers, String method, Class<?> parameter, Object value) {
        try {
            return factory(answers, method, parameter).invoke(null, value);
        } catch (ReflectiveOperationException fault) {
            throw new IllegalArgumentException("cannot make an answer by " + answers.getName() + "." + method + ": " + fault, fault);
        }
    }
}
