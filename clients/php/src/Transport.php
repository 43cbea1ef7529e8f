<?php

declare(strict_types=1);

namespace Tarry;

/**
 * Requests and answers on a connection that is kept. It is made of PHP's streams, not of curl: curl sends a request
 * again by itself where a connection that it had kept is cut, and a take must never be sent again.
 *
 * @internal
 */
final class Transport
{
    public const FIRST_PAUSE = 0.05;
    public const LONGEST_PAUSE = 5.0;
    private const READ_BYTES = 1 << 16;

    /** @var list<array{address: string, host: string, prefix: string}> */
    private array $places = [];
    private int $at = 0;
    /** @var resource|null */
    private $connection = null;
    private int $process = 0;
    /** @var list<mixed> connections of the process that this one was forked from: closing them would end its TLS */
    private static array $inherited = [];

    /** @param array<string, array<string, mixed>> $context options of stream_context_create() */
    public function __construct(
        string $urls,
        private readonly ?string $token,
        public readonly float $timeout,
        public readonly float $retryFor,
        private readonly array $context = [],
    ) {
        foreach (array_filter(array_map('trim', explode(',', $urls))) as $url) {
            $parts = parse_url(str_contains($url, '://') ? $url : "http://$url");
            $scheme = $parts['scheme'] ?? '';
            if (!isset($parts['host']) || !in_array($scheme, ['http', 'https'], true)) {
                throw new \InvalidArgumentException("bad URL '$url', give one like http://127.0.0.1:8279");
            }
            $host = $parts['host'] . ':' . ($parts['port'] ?? ($scheme === 'https' ? 443 : 8279));
            $this->places[] = [
                'address' => ($scheme === 'https' ? 'tls' : 'tcp') . "://$host",
                'host' => $host,
                'prefix' => rtrim($parts['path'] ?? '', '/'),
            ];
        }
        if ($this->places === []) {
            throw new \InvalidArgumentException('no URL, give one like http://127.0.0.1:8279');
        }
    }

    /** Seconds by the clock that does not jump. */
    public static function now(): float
    {
        return hrtime(true) / 1e9;
    }

    public function close(): void
    {
        if ($this->connection !== null && $this->process === getmypid()) {
            // A program that a handler left running holds a copy, which would keep the connection open.
            stream_socket_shutdown($this->connection, STREAM_SHUT_RDWR);
            fclose($this->connection);
            $this->connection = null;
        }
    }

    /**
     * The answer of a call that was carried out; it is repeated by the rules of docs/clients.md.
     *
     * @param int $tries how many earlier tries may have been carried out
     * @param string $raw the answer as it came
     * @return array<mixed>
     * @throws TarryError
     */
    public function call(Request $request, bool $again = true, int &$tries = 0, string &$raw = ''): array
    {
        $limit = self::now() + ($request->retryFor ?? $this->retryFor);
        for ($pause = self::FIRST_PAUSE;; $pause = min(2 * $pause, self::LONGEST_PAUSE)) {
            $answer = $this->once($request);
            $left = $limit - self::now();
            $wait = $answer->retryAfter ?? min(self::jitter($pause), $left); // the last try is at the limit
            if (!$again || !$answer->asksForAnother() || $left <= 0 || $wait > $left) {
                $raw = $answer->body;
                return $answer->json();
            }
            $tries += $answer->leavesOpen() ? 1 : 0;
            usleep((int) ($wait * 1e6));
        }
    }

    /** A random part of a pause, between a half and the whole. */
    public static function jitter(float $pause): float
    {
        return $pause * (0.5 + random_int(0, 1000) / 2000);
    }

    /** Makes a single try. */
    public function once(Request $request): Answer
    {
        $limit = self::now() + ($request->timeout ?? $this->timeout);
        try {
            $this->connect($limit);
            $this->write($this->encode($request), $limit);
            $answer = $this->read($limit);
        } catch (\UnexpectedValueException $fault) {
            $answer = new Answer(0, $fault->getMessage());
        }
        if ($answer->status === 0) {
            $this->close();
        }
        if (in_array($answer->status, [0, 502, 503, 504], true)) {
            $this->nextPlace();
        }
        return $answer;
    }

    private function nextPlace(): void
    {
        if (count($this->places) > 1) {
            $this->close();
            $this->at = ($this->at + 1) % count($this->places);
        }
    }

    private function connect(float $limit): void
    {
        if ($this->connection !== null && $this->process !== getmypid()) {
            self::$inherited[] = $this->connection;
            $this->connection = null;
        }
        if ($this->connection !== null && $this->isIdle($this->connection)) {
            return;
        }
        $this->close();
        $context = stream_context_create(array_replace_recursive(['socket' => ['tcp_nodelay' => true]], $this->context));
        $address = $this->places[$this->at]['address'];
        $seconds = $limit - self::now();
        [$number, $why, $warnings] = [0, '', []];
        set_error_handler(static function (int $level, string $text) use (&$warnings): bool {
            $warnings[] = $text; // the first warning of TLS has the cause
            return true;
        });
        try {
            $found = stream_socket_client($address, $number, $why, $seconds, STREAM_CLIENT_CONNECT, $context);
        } finally {
            restore_error_handler();
        }
        if ($found === false) {
            throw new \UnexpectedValueException(Format::line($why ?: $warnings[0] ?? 'no connection'));
        }
        [$this->connection, $this->process] = [$found, (int) getmypid()];
    }

    /**
     * Checks an idle connection: the only thing that comes on it is its end.
     *
     * @param resource $connection
     */
    private function isIdle($connection): bool
    {
        [$read, $write, $except] = [[$connection], null, null];
        return @stream_select($read, $write, $except, 0) === 0;
    }

    private function encode(Request $request): string
    {
        $place = $this->places[$this->at];
        $pairs = array_map(static fn (array $pair): string => $pair[0] . '=' . rawurlencode($pair[1]), $request->query);
        $target = $place['prefix'] . $request->path . ($pairs === [] ? '' : '?' . implode('&', $pairs));
        $head = "$request->method $target HTTP/1.1\r\nHost: {$place['host']}\r\nUser-Agent: tarry-php\r\n";
        $head .= $this->token === null ? '' : "Authorization: Bearer $this->token\r\n";
        foreach ($request->headers as $name => $value) {
            if (preg_match('/^[A-Za-z0-9-]+$/D', $name) !== 1 || preg_match('/[\x00-\x1f\x7f]/', $value) === 1) {
                $rule = 'a name has a-z, 0-9 and -, and a value has no control characters';
                throw new \InvalidArgumentException("bad meta '" . Format::line($name) . "': $rule");
            }
            $head .= "$name: $value\r\n";
        }
        if ($request->body !== null || $request->method === 'POST') {
            $head .= 'Content-Length: ' . strlen($request->body ?? '') . "\r\n";
            $type = $request->contentType ?? 'application/json';
            if (preg_match('/[\x00-\x1f\x7f]/', $type) === 1) {
                throw new \InvalidArgumentException("bad content type '" . Format::line($type) . "'");
            }
            $head .= $request->body === null ? '' : "Content-Type: $type\r\n";
        }
        return "$head\r\n$request->body";
    }

    private function write(string $data, float $limit): void
    {
        for ($from = 0; $from < strlen($data); $from += $written) {
            $connection = $this->awaiting($limit);
            $written = @fwrite($connection, $from === 0 ? $data : substr($data, $from));
            if ($written === false || $written === 0) {
                throw new \UnexpectedValueException('the connection was cut');
            }
        }
    }

    /** @return resource the connection, for one more read or write within the limit */
    private function awaiting(float $limit)
    {
        $left = $limit - self::now();
        if ($left <= 0 || $this->connection === null) {
            throw new \UnexpectedValueException('the time limit has passed');
        }
        stream_set_timeout($this->connection, (int) $left, (int) (($left - (int) $left) * 1e6));
        return $this->connection;
    }

    private function read(float $limit): Answer
    {
        $buffer = '';
        do {
            while (($end = strpos($buffer, "\r\n\r\n")) === false) {
                $this->fill($buffer, $limit);
            }
            $lines = explode("\r\n", substr($buffer, 0, $end));
            $buffer = substr($buffer, $end + 4);
            if (preg_match('~^HTTP/1\.([01]) ([1-5][0-9]{2})~', $lines[0], $found) !== 1) {
                throw new \UnexpectedValueException('what answers does not speak HTTP');
            }
            $status = (int) $found[2];
        } while ($status < 200);
        $headers = [];
        foreach (array_slice($lines, 1) as $line) {
            [$name, $value] = explode(':', $line, 2) + [1 => ''];
            $headers[strtolower($name)] = trim($value);
        }
        $body = $this->readBody($status, $headers, $buffer, $limit);
        $connection = strtolower($headers['connection'] ?? ($found[1] === '1' ? '' : 'close'));
        if ($connection === 'close') {
            $this->close();
        }
        return new Answer($status, $body, self::retryAfter($headers));
    }

    /** @param array<string, string> $headers */
    private function readBody(int $status, array &$headers, string $buffer, float $limit): string
    {
        if ($status === 204 || $status === 304) {
            return '';
        }
        if (stripos($headers['transfer-encoding'] ?? '', 'chunked') !== false) {
            return $this->readChunks($buffer, $limit);
        }
        if (!isset($headers['content-length'])) {
            $headers['connection'] = 'close';
            return $this->readToEnd($buffer, $limit);
        }
        return $this->readBytes($buffer, (int) $headers['content-length'], $limit);
    }

    private function readToEnd(string $buffer, float $limit): string
    {
        while ($this->fill($buffer, $limit, false)) {
            continue;
        }
        return $buffer;
    }

    private function readBytes(string &$buffer, int $count, float $limit): string
    {
        while (strlen($buffer) < $count) {
            $this->fill($buffer, $limit);
        }
        $found = substr($buffer, 0, $count);
        $buffer = substr($buffer, $count);
        return $found;
    }

    private function readLine(string &$buffer, float $limit): string
    {
        while (($end = strpos($buffer, "\r\n")) === false) {
            $this->fill($buffer, $limit);
        }
        $line = substr($buffer, 0, $end);
        $buffer = substr($buffer, $end + 2);
        return $line;
    }

    private function readChunks(string $buffer, float $limit): string
    {
        $body = '';
        while (true) {
            $size = preg_match('/^[0-9a-f]{1,8}/i', $this->readLine($buffer, $limit), $found) === 1 ? $found[0] : null;
            if ($size === null) {
                throw new \UnexpectedValueException('the answer has a bad chunk');
            }
            if (hexdec($size) === 0) {
                while ($this->readLine($buffer, $limit) !== '') {
                    continue; // trailers
                }
                return $body;
            }
            $body .= substr($this->readBytes($buffer, (int) hexdec($size) + 2, $limit), 0, -2);
        }
    }

    /** False at the end of the connection, if that is an end and not a cut. */
    private function fill(string &$buffer, float $limit, bool $isCut = true): bool
    {
        $connection = $this->awaiting($limit);
        $data = @fread($connection, self::READ_BYTES);
        if ($data !== false && $data !== '') {
            $buffer .= $data;
            return true;
        }
        if (stream_get_meta_data($connection)['timed_out']) {
            throw new \UnexpectedValueException('the time limit has passed');
        }
        if ($isCut && feof($connection)) {
            throw new \UnexpectedValueException('the connection was cut');
        }
        return !feof($connection);
    }

    /**
     * Seconds, in either format of the header. A date is compared with the answer's own Date: the clock here may be wrong.
     *
     * @param array<string, string> $headers
     */
    public static function retryAfter(array $headers): ?float
    {
        $text = $headers['retry-after'] ?? '';
        if (preg_match('/^[0-9]{1,9}$/D', $text) === 1) {
            return (float) $text;
        }
        $then = preg_match('/^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/', $text) === 1 ? strtotime($text) : false;
        $now = isset($headers['date']) ? strtotime($headers['date']) : time();
        return $then === false || $now === false ? null : (float) max(0, $then - $now);
    }
}
