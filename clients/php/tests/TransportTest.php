<?php

declare(strict_types=1);

namespace Tarry\Tests;

use PHPUnit\Framework\TestCase;
use Tarry\Request;
use Tarry\Transport;

final class TransportTest extends TestCase
{
    /**
     * @dataProvider retryAfters
     * @param array<string, string> $headers
     */
    public function testRetryAfterIsSecondsOrADateByTheAnswersOwn(array $headers, ?float $wanted): void
    {
        self::assertSame($wanted, Transport::retryAfter($headers));
    }

    /** @return array<array{array<string, string>, ?float}> */
    public static function retryAfters(): array
    {
        $date = 'Tue, 01 Jan 2030 00:00:00 GMT';
        return [
            [[], null],
            [['retry-after' => '2'], 2.0],
            [['retry-after' => '-2'], null],
            [['retry-after' => 'soon or later'], null],
            [['retry-after' => 'Tue, 01 Jan 2030 00:00:03 GMT', 'date' => $date], 3.0],
            [['retry-after' => 'Mon, 31 Dec 2029 23:00:00 GMT', 'date' => $date], 0.0],
            [['retry-after' => gmdate('D, d M Y H:i:s', time() + 3600) . ' GMT', 'date' => 'nonsense'], null],
        ];
    }

    public function testPausesAreBetweenAHalfAndTheWhole(): void
    {
        for ($n = 0; $n < 100; $n++) {
            $pause = Transport::jitter(2.0);
            self::assertTrue($pause >= 1.0 && $pause <= 2.0);
        }
    }

    public function testBadUrlsAreRefused(): void
    {
        foreach (['', 'ftp://host', 'http://'] as $url) {
            try {
                new Transport($url, null, 1.0, 1.0);
                self::fail("'$url' was accepted");
            } catch (\InvalidArgumentException $fault) {
                self::assertStringContainsString('http://127.0.0.1:8279', $fault->getMessage());
            }
        }
    }

    /** @dataProvider answers */
    public function testAnswersAreReadHoweverTheyAreFramed(string $sent, int $status, string $body): void
    {
        $listener = stream_socket_server('tcp://127.0.0.1:0');
        self::assertNotFalse($listener);
        $pid = pcntl_fork();
        if ($pid === 0) {
            $peer = stream_socket_accept($listener, 5);
            if ($peer !== false) {
                fread($peer, 65536);
                foreach (str_split($sent, 7) as $part) {
                    fwrite($peer, $part);
                    usleep(100);
                }
                fclose($peer);
            }
            posix_kill((int) getmypid(), SIGKILL);
        }
        $transport = new Transport((string) stream_socket_get_name($listener, false), null, 2.0, 0.0);
        $answer = $transport->once(new Request('GET', '/'));
        pcntl_waitpid($pid, $_);
        self::assertSame([$status, $body], [$answer->status, $answer->body]);
    }

    /** @return array<array{string, int, string}> */
    public static function answers(): array
    {
        $head = "HTTP/1.1 200 OK\r\n";
        return [
            ["{$head}Content-Length: 5\r\n\r\nhello", 200, 'hello'],
            ["{$head}content-length:0\r\n\r\n", 200, ''],
            ["{$head}Transfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n3\r\n yo\r\n0\r\nTrailer: 1\r\n\r\n", 200, 'hello yo'],
            ["HTTP/1.0 404 Not Found\r\n\r\nno length", 404, 'no length'],
            ["HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", 204, ''],
            ["{$head}Content-Length: 50\r\n\r\nhello", 0, 'the connection was cut'],
            ["{$head}Transfer-Encoding: chunked\r\n\r\n5\r\nhel", 0, 'the connection was cut'],
            ['', 0, 'the connection was cut'],
            ["SSH-2.0-OpenSSH\r\n\r\n", 0, 'what answers does not speak HTTP'],
        ];
    }

    public function testClosingEndsAConnectionThatAnotherProgramHasACopyOf(): void
    {
        $listener = stream_socket_server('tcp://127.0.0.1:0');
        self::assertNotFalse($listener);
        $pid = pcntl_fork();
        if ($pid === 0) {
            $peer = stream_socket_accept($listener, 5);
            if ($peer !== false) {
                fread($peer, 65536);
                fwrite($peer, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                stream_set_timeout($peer, 2);
                fread($peer, 1);
                posix_kill((int) getmypid(), feof($peer) ? SIGKILL : SIGTERM);
            }
        }
        $transport = new Transport((string) stream_socket_get_name($listener, false), null, 2.0, 0.0);
        self::assertSame(200, $transport->once(new Request('GET', '/'))->status);
        $program = proc_open(['sleep', '4'], [], $pipes);
        self::assertNotFalse($program);
        $transport->close();
        pcntl_waitpid($pid, $status);
        self::assertSame(SIGKILL, pcntl_wtermsig($status));
        proc_terminate($program);
    }

    public function testATimeLimitIsKept(): void
    {
        $listener = stream_socket_server('tcp://127.0.0.1:0');
        self::assertNotFalse($listener);
        $transport = new Transport((string) stream_socket_get_name($listener, false), null, 0.2, 0.0);
        $began = Transport::now();
        self::assertSame(0, $transport->once(new Request('GET', '/'))->status);
        self::assertLessThan(1.0, Transport::now() - $began);
    }
}
