<?php

declare(strict_types=1);

namespace Tarry;

/**
 * A process that was forked to do one thing again and again: a value goes in, a value comes out. It is kept for the
 * next, and ends when its parent closes its side of the socket between them, or is no more.
 *
 * A child ends itself with SIGKILL: an ordinary end would destroy what it got from its parent, and so close the
 * parent's connections to a database or over TLS.
 *
 * @internal
 */
final class Child
{
    private const READ_BYTES = 1 << 16;
    private const CANCEL = 'cancel'; // in place of a job: that at work is not wanted any more

    /** @var array<int, resource> the parent's ends, which a later child must not hold open */
    private static array $sockets = [];
    /** In a child: is it at work? */
    private static bool $isWorking = false;
    /** In a child: what came from its parent and is not read yet. */
    private static string $received = '';

    public bool $isGone = false;
    public ?Held $held = null;
    public int $jobs = 0;
    /** Its end was asked for: when it is forced. */
    public float $killAt = INF;
    private string $buffer = '';

    /** @param resource $socket */
    private function __construct(public readonly int $pid, public readonly mixed $socket)
    {
    }

    /**
     * @param \Closure(mixed): mixed $work
     * @param bool $isHandler may it be interrupted? Other children ignore signals
     */
    public static function start(\Closure $work, bool $isHandler): self
    {
        $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        if ($pair === false) {
            throw new \RuntimeException('no socket for another process');
        }
        foreach ($pair as $socket) {
            stream_set_chunk_size($socket, self::READ_BYTES);
            stream_set_timeout($socket, 1 << 30);
        }
        $pid = @pcntl_fork();
        if ($pid === -1) {
            throw new \RuntimeException('cannot fork: ' . pcntl_strerror(pcntl_get_last_error()));
        }
        if ($pid === 0) {
            self::live($pair[1], $work, $isHandler, [...self::$sockets, $pair[0]]);
        }
        fclose($pair[1]);
        self::$sockets[$pid] = $pair[0];
        return new self($pid, $pair[0]);
    }

    // ---- in the parent ----

    public function send(mixed $value): bool
    {
        $this->isGone = $this->isGone || !self::write($this->socket, $value);
        return !$this->isGone;
    }

    /**
     * Reads once, what there is.
     *
     * @return list<mixed> the values that are whole
     */
    public function receive(): array
    {
        $data = is_resource($this->socket) ? @fread($this->socket, self::READ_BYTES) : '';
        if ($data === false || $data === '') {
            $this->isGone = true;
            return [];
        }
        $this->buffer .= $data;
        $values = [];
        while (($value = self::cut($this->buffer)) !== null) {
            $values[] = $value[0];
        }
        return $values;
    }

    /** Throws CancelRequested within the handler. */
    public function requestCancel(): void
    {
        $this->send(self::CANCEL);
        posix_kill($this->pid, SIGTERM);
    }

    /** Interrupts work that is no longer needed; kill() follows if the child does not react. */
    public function interrupt(float $killAt): void
    {
        $this->killAt = $killAt;
        stream_socket_shutdown($this->socket, STREAM_SHUT_WR);
        posix_kill($this->pid, SIGTERM);
    }

    public function kill(): void
    {
        posix_kill($this->pid, SIGKILL);
        $this->isGone = true;
    }

    /** No more work for it. */
    public function close(): void
    {
        unset(self::$sockets[$this->pid]);
        fclose($this->socket);
    }

    /** Has it ended? */
    public function reap(bool $waits = false): bool
    {
        return pcntl_waitpid($this->pid, $status, $waits ? 0 : WNOHANG) !== 0;
    }

    // ---- in the child ----

    /**
     * @param resource $socket
     * @param \Closure(mixed): mixed $work
     * @param array<resource> $others
     */
    private static function live($socket, \Closure $work, bool $isHandler, array $others): never
    {
        array_map(fclose(...), $others);
        self::$sockets = [];
        self::$received = '';
        mt_srand();
        pcntl_async_signals(true);
        pcntl_signal(SIGINT, SIG_IGN); // a terminal sends it to all; the parent sees to the end
        pcntl_signal(SIGTERM, $isHandler ? static fn () => self::heedInterrupt($socket) : SIG_IGN);
        register_shutdown_function(static function () use ($socket): void {
            if (self::$isWorking) {
                $why = error_get_last()['message'] ?? 'the handler called exit';
                self::write($socket, ['nack', Client::nackOptions(null, $why), true]);
            }
            register_shutdown_function(self::end(...)); // after those that the handler registered
        });
        try {
            while (($value = self::next($socket)) !== null) {
                if ($value[0] === self::CANCEL) {
                    continue; // too late: that job has ended
                }
                self::$isWorking = true;
                try {
                    $answer = $work($value[0]);
                } catch (CancelRequested $fault) { // behind the last line of the handler
                    $answer = ['nack', Client::nackOptions(null, $fault->getMessage())];
                }
                self::$isWorking = false;
                if (!self::write($socket, $answer)) {
                    break;
                }
            }
        } catch (Lost) {
            // the parent is gone: an answer is useless
        }
        self::end();
    }

    private static function end(): never
    {
        posix_kill((int) getmypid(), SIGKILL);
        exit;
    }

    /**
     * SIGTERM may have come from the parent or, if a service is stopped, to all processes. Only the parent
     * has closed its side before, or sent a message.
     *
     * @param resource $socket
     */
    private static function heedInterrupt($socket): void
    {
        [$read, $write, $except] = [[$socket], null, null];
        if (!self::$isWorking || @stream_select($read, $write, $except, 0) !== 1) {
            return;
        }
        $data = @fread($socket, self::READ_BYTES);
        if ($data === false || $data === '') {
            throw new Lost('the lease of the job was lost');
        }
        self::$received .= $data;
        if ((self::cut(self::$received)[0] ?? null) === self::CANCEL) {
            throw new CancelRequested('the cancel of this job was requested');
        }
    }

    /**
     * @param resource $socket
     * @return array{mixed}|null null at the end
     */
    private static function next($socket): ?array
    {
        while (($value = self::cut(self::$received)) === null) {
            $data = @fread($socket, self::READ_BYTES);
            if (($data === false || $data === '') && feof($socket)) {
                return null;
            }
            self::$received .= $data;
        }
        return $value;
    }

    // ---- values on a socket: four bytes of length, then PHP's own form ----

    /** @return array{mixed}|null the first value that is whole */
    private static function cut(string &$buffer): ?array
    {
        if (strlen($buffer) < 4) {
            return null;
        }
        $end = 4 + (ord($buffer[0]) << 24 | ord($buffer[1]) << 16 | ord($buffer[2]) << 8 | ord($buffer[3]));
        if (strlen($buffer) < $end) {
            return null;
        }
        $value = [unserialize(substr($buffer, 4, $end - 4))];
        $buffer = substr($buffer, $end);
        return $value;
    }

    /** @param resource $socket */
    private static function write($socket, mixed $value): bool
    {
        $data = serialize($value);
        $data = pack('N', strlen($data)) . $data;
        for ($from = 0; $from < strlen($data); $from += $written) {
            $written = @fwrite($socket, $from === 0 ? $data : substr($data, $from));
            if ($written === false || $written === 0) {
                return false;
            }
        }
        return true;
    }
}
