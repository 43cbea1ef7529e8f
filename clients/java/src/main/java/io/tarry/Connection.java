package io.tarry;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Pattern;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;

/**
 * A connection to one server and HTTP/1.1 on it: a request, its answer, and the next request (RFC 9112). One thread at a time uses it;
 * {@link #close} may come from any, and ends what that thread waits for with an IOException.
 *
 * <p>The JDK's own HTTP client hands each request through four threads, which costs more than all else that a push does here.
 */
final class Connection {
    private static final int BUFFER_BYTES = 16 << 10;
    private static final int HEAD_BYTES_MAX = 64 << 10;
    private static final byte[] END = {'\r', '\n'};
    private static final Pattern STATUS_LINE = Pattern.compile("HTTP/1\\.[01] [1-5][0-9][0-9]( .*)?");
    private static final Pattern DECIMAL = Pattern.compile("[0-9]{1,9}");
    private static final Pattern HEXADECIMAL = Pattern.compile("[0-9A-Fa-f]{1,7}");

    /** A response. Names of headers are in lower case; of several with one name the first counts. */
    static final class Response {
        int status;
        final Map<String, String> headers = new HashMap<>();
        byte[] body = new byte[0];
    }

    private final String host;
    private final int port;
    private final SSLContext tls;
    private volatile SocketChannel channel;
    private volatile boolean isClosed;
    private InputStream in;
    private OutputStream out;
    private int headBytes;
    private boolean isReusable;
    /** Whether the server may have the request: false while there is no connection. */
    private boolean isSent;
    long idleSince;

    /** Without {@code tls} the connection is plain. */
    Connection(String host, int port, SSLContext tls) {
        this.host = host;
        this.port = port;
        this.tls = tls;
    }

    boolean isSent() {
        return isSent;
    }

    /** Whether another request may follow the answer. */
    boolean isReusable() {
        return isReusable && !isClosed;
    }

    /** Whether the server has left a kept connection open. Whatever has come since the last answer belongs to no request. */
    boolean isAlive() {
        try {
            if (in.available() > 0) { // read beyond the answer, or, with TLS, decrypted
                return false;
            }
            channel.configureBlocking(false);
            boolean isQuiet = channel.read(ByteBuffer.allocate(1)) == 0;
            channel.configureBlocking(true);
            return isQuiet;
        } catch (IOException fault) {
            return false;
        }
    }

    void close() {
        isClosed = true;
        SocketChannel found = channel;
        try {
            if (found != null) {
                found.close(); // below TLS: a farewell could wait for a server that does not read
            }
        } catch (IOException fault) {
            return; // it is of no use any more either way
        }
    }

    /** Sends a request, which is a head and a body in one, and reads the answer. Connects before the first. */
    Response ask(byte[] request) throws IOException {
        isSent = isReusable = false;
        if (channel == null) {
            connect();
        }
        isSent = true;
        out.write(request);
        out.flush();
        return read();
    }

    private void connect() throws IOException {
        IOException last = null;
        for (InetAddress address : InetAddress.getAllByName(host)) {
            try {
                connect(new InetSocketAddress(address, port));
                return;
            } catch (IOException fault) {
                last = fault;
            }
        }
        throw last;
    }

    private void connect(InetSocketAddress address) throws IOException {
        SocketChannel one = channel = SocketChannel.open();
        if (isClosed) { // before there was something to close
            one.close();
        }
        try {
            one.connect(address);
            one.setOption(StandardSocketOptions.TCP_NODELAY, true);
            one.setOption(StandardSocketOptions.SO_KEEPALIVE, true);
            if (tls == null) {
                in = new BufferedInputStream(one.socket().getInputStream(), BUFFER_BYTES);
                out = one.socket().getOutputStream();
            } else {
                SSLSocket socket = (SSLSocket) tls.getSocketFactory().createSocket(one.socket(), host, port, true);
                SSLParameters parameters = socket.getSSLParameters();
                parameters.setEndpointIdentificationAlgorithm("HTTPS");
                socket.setSSLParameters(parameters);
                socket.startHandshake();
                in = new BufferedInputStream(socket.getInputStream(), BUFFER_BYTES);
                out = socket.getOutputStream();
            }
        } catch (IOException fault) {
            one.close();
            throw fault;
        }
    }

    // ---- an answer ----

    private Response read() throws IOException {
        Response response = new Response();
        headBytes = 0;
        String version;
        do { // 1xx announces the answer proper
            response.headers.clear();
            version = readHead(response);
        } while (response.status < 200);
        String encoding = response.headers.get("transfer-encoding");
        String length = response.headers.get("content-length");
        boolean hasEnd = true;
        if (response.status == 204 || response.status == 304) {
            response.body = new byte[0]; // regardless of the headers
        } else if (encoding != null) {
            if (length != null || !encoding.equalsIgnoreCase("chunked")) {
                throw new IOException("the answer has the transfer encoding '" + encoding + "'" + (length == null ? "" : " and also a length"));
            }
            response.body = readChunks();
        } else if (length != null) {
            response.body = readExactly(number(length, 10));
        } else {
            hasEnd = false;
            response.body = in.readAllBytes();
        }
        isReusable = hasEnd && version.equals("HTTP/1.1") && !response.headers.getOrDefault("connection", "").equalsIgnoreCase("close");
        return response;
    }

    /** The status line and the headers; gives the version. */
    private String readHead(Response response) throws IOException {
        String line = readLine();
        if (!STATUS_LINE.matcher(line).matches()) {
            throw new IOException("the answer does not begin as HTTP/1.1 does");
        }
        response.status = Integer.parseInt(line.substring(9, 12));
        for (String header = readLine(); !header.isEmpty(); header = readLine()) {
            int colon = header.indexOf(':');
            String name = header.substring(0, Math.max(colon, 0)).toLowerCase(java.util.Locale.ROOT);
            if (name.isEmpty() || !name.equals(name.strip())) {
                throw new IOException("the answer has a malformed header");
            }
            if (response.headers.putIfAbsent(name, header.substring(colon + 1).strip()) != null && (name.equals("content-length") || name.equals("transfer-encoding"))) {
                throw new IOException("the answer has '" + name + "' twice");
            }
        }
        return line.substring(0, 8);
    }

    private String readLine() throws IOException {
        StringBuilder line = new StringBuilder(64);
        for (int one = in.read(); one != '\n'; one = in.read()) {
            if (one < 0) {
                throw new EOFException("the connection ended before the answer");
            }
            if (++headBytes > HEAD_BYTES_MAX) {
                throw new IOException("the answer's head is too long");
            }
            line.append((char) one);
        }
        int end = line.length() - 1;
        if (end < 0 || line.indexOf("\r") != end) {
            throw new IOException("the answer's head has a line that does not end as HTTP's do");
        }
        return line.substring(0, end);
    }

    private byte[] readChunks() throws IOException {
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        while (true) {
            headBytes = 0;
            int size = number(readLine().split(";", 2)[0].strip(), 16);
            if (size == 0) {
                break;
            }
            body.writeBytes(readExactly(size));
            if (!java.util.Arrays.equals(readExactly(2), END)) {
                throw new IOException("a chunk of the answer does not end where it should");
            }
        }
        while (!readLine().isEmpty()) { // trailers are ignored
            continue;
        }
        return body.toByteArray();
    }

    private byte[] readExactly(int size) throws IOException {
        byte[] found = in.readNBytes(size);
        if (found.length < size) {
            throw new EOFException("the answer was cut short");
        }
        return found;
    }

    private static int number(String text, int base) throws IOException {
        if (!(base == 10 ? DECIMAL : HEXADECIMAL).matcher(text).matches()) {
            throw new IOException("the answer has the length '" + text + "'");
        }
        return Integer.parseInt(text, base);
    }

    static byte[] request(String method, String target, String headers, byte[] body) {
        byte[] head = (method + " " + target + " HTTP/1.1\r\n" + headers + (body.length > 0 || !method.equals("GET") ? "Content-Length: " + body.length + "\r\n" : "") + "\r\n").getBytes(StandardCharsets.ISO_8859_1);
        byte[] out = java.util.Arrays.copyOf(head, head.length + body.length);
        System.arraycopy(body, 0, out, head.length, body.length);
        return out;
    }
}
