<?php

declare(strict_types=1);

namespace Tarry\Tests;

use PHPUnit\Framework\TestCase;
use Tarry\AesGcm;
use Tarry\ClaimCheck;
use Tarry\Codec;
use Tarry\CodecError;
use Tarry\DirectoryStore;
use Tarry\Gzip;
use Tarry\Job;
use Tarry\Store;

/** The vectors that all clients share, stores, and a job that cannot be decoded. */
final class CodecTest extends TestCase
{
    /** @return array<string, mixed> */
    private static function found(): array
    {
        return json_decode((string) file_get_contents(__DIR__ . '/../../conformance/codec.json'), true);
    }

    /** @param array<string, mixed> $one */
    private static function codec(array $one): Codec
    {
        $store = new class ($one['stored'] ?? []) implements Store {
            /** @param array<string, string> $data */
            public function __construct(private array $data)
            {
            }

            public function put(string $name, string $data): void
            {
                $this->data[$name] = base64_encode($data);
            }

            public function get(string $name): ?string
            {
                return isset($this->data[$name]) ? (string) base64_decode($this->data[$name]) : null;
            }

            public function delete(string $name): void
            {
                unset($this->data[$name]);
            }
        };
        return new Codec(
            new Gzip(inflated: $one['inflated'] ?? Gzip::INFLATED_BYTES),
            isset($one['no_keys']) ? null : new AesGcm(self::found()['current'], self::found()['keys']),
            isset($one['no_store']) ? null : new ClaimCheck($store),
            $one['context'] ?? self::found()['context'],
        );
    }

    public function testEncodesAsEveryClientDoes(): void
    {
        foreach (self::found()['vectors'] as $one) {
            $nonce = isset($one['nonce_base64']) ? (string) base64_decode($one['nonce_base64']) : null;
            $body = (string) base64_decode($one['body_base64']);
            [$data, $type] = self::codec($one)->encode($body, $one['content_type'], $one['part'], $one['is_steady'] ?? false, $nonce);
            self::assertSame([$one['encoded_base64'], $one['encoded_type']], [base64_encode($data), $type], $one['about']);
        }
    }

    public function testDecodesWhatEveryClientEncodes(): void
    {
        $outputs = array_merge(...array_values(self::found()['outputs']));
        foreach ([...self::found()['vectors'], ...self::found()['decodes'], ...$outputs] as $one) {
            [$data, $type] = self::codec($one)->decode((string) base64_decode($one['encoded_base64']), $one['encoded_type'], $one['part']);
            self::assertSame([$one['body_base64'], $one['content_type']], [base64_encode($data), $type], $one['about']);
        }
    }

    public function testReportsWhatIsWrong(): void
    {
        foreach (self::found()['errors'] as $one) {
            $detail = null;
            try {
                self::codec($one)->decode((string) base64_decode($one['encoded_base64']), $one['encoded_type'], $one['part']);
            } catch (CodecError $fault) {
                $detail = $fault->detail;
            }
            self::assertSame($one['error'], $detail, $one['about']);
        }
    }

    public function testOnlyWhatBecomesSmallerIsCompressed(): void
    {
        $mine = new Codec(new Gzip(above: 100));
        foreach ([str_repeat('a', 99), random_bytes(200)] as $data) {
            self::assertSame([$data, 'text/plain'], $mine->encode($data, 'text/plain'));
        }
        self::assertSame('application/vnd.tarry.encoded; steps=gzip', $mine->encode(str_repeat('a', 100), 'text/plain')[1]);
    }

    private static function job(?Codec $codec, string $data, string $type): Job
    {
        return Job::of(['topic' => 't', 'id' => '1', 'body_base64' => base64_encode($data), 'content_type' => $type])->decoded($codec);
    }

    public function testLargeBodiesAreStoredAndDeleted(): void
    {
        $place = sys_get_temp_dir() . '/tarry-' . bin2hex(random_bytes(8));
        mkdir($place);
        try {
            $mine = new Codec(claimCheck: new ClaimCheck(new DirectoryStore($place), above: 20));
            [$data, $type] = $mine->encode('a body that is longer', 'text/plain');
            self::assertSame([['.', '..', $data], 'application/vnd.tarry.encoded; steps=claim-check'], [scandir($place), $type]);
            self::assertSame(0o600, fileperms("$place/$data") & 0o777);
            $job = self::job($mine, $data, $type);
            self::assertSame(['a body that is longer', 'text/plain', $data], [$job->text(), $job->contentType, $job->storedAs]);
            $mine->deleteStored($job);
            $mine->deleteStored($job);
            self::assertSame(['.', '..'], scandir($place));
        } finally {
            rmdir($place);
        }
    }

    public function testABodyThatCannotBeDecodedIsNeverReadAsItIs(): void
    {
        $one = self::found()['vectors'][0];
        foreach ([null, new Codec()] as $mine) {
            $job = self::job($mine, (string) base64_decode($one['encoded_base64']), $one['encoded_type']);
            foreach ([fn () => $job->body, fn () => $job->text(), fn () => $job->json()] as $read) {
                $fault = null;
                try {
                    $read();
                } catch (CodecError $thrown) {
                    $fault = $thrown;
                }
                self::assertSame($job->codecError, $fault);
            }
            self::assertNotNull($job->codecError);
            self::assertNull($job->result);
        }
    }

    public function testBadKeysAreRejected(): void
    {
        $count = 0;
        foreach ([['a', 'b', 32], ['a', 'a', 16], ['a b', 'a b', 32]] as [$current, $id, $bytes]) {
            try {
                new AesGcm($current, [$id => str_repeat('k', $bytes)]);
            } catch (\InvalidArgumentException) {
                $count++;
            }
        }
        self::assertSame(3, $count);
    }
}
