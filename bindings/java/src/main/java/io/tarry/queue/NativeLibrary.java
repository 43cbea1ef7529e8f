package io.tarry.queue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/**
 * The compiled part: what the property {@code tarry.library} names, else {@code libtarry_java.so} of {@code java.library.path}, else the
 * one in the jar, which is written to a temporary file for as long as it takes to load it.
 */
final class NativeLibrary {
    private NativeLibrary() {}

    static {
        load();
    }

    /** Loaded once this returns. */
    static void ensure() {}

    private static void load() {
        String named = System.getProperty("tarry.library");
        if (named != null) {
            System.load(named);
            return;
        }
        try {
            System.loadLibrary("tarry_java");
        } catch (UnsatisfiedLinkError notThere) {
            loadFromJar();
        }
    }

    private static void loadFromJar() {
        String arch = System.getProperty("os.arch");
        String folder = "native/linux-" + (arch.equals("amd64") ? "x86_64" : arch) + "/";
        loadFromJar(folder + "libuv.so.1", arch); // once it is there the next one needs no other
        loadFromJar(folder + "libtarry_java.so", arch);
    }

    private static void loadFromJar(String place, String arch) {
        try (InputStream from = NativeLibrary.class.getResourceAsStream(place)) {
            if (from == null) {
                throw new UnsatisfiedLinkError("no libtarry_java for " + System.getProperty("os.name") + " on " + arch
                        + " in the jar: build one by 'make bindings' there, and name it by -Dtarry.library=PATH");
            }
            Path file = Files.createTempFile("libtarry_java", ".so");
            try {
                Files.copy(from, file, StandardCopyOption.REPLACE_EXISTING);
                System.load(file.toString());
            } finally {
                Files.delete(file);
            }
        } catch (IOException failed) {
            throw new UnsatisfiedLinkError("cannot unpack libtarry_java: " + failed + "; name one by -Dtarry.library=PATH");
        }
    }
}
