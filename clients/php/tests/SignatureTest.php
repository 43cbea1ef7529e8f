<?php

declare(strict_types=1);

namespace Tarry\Tests;

use PHPUnit\Framework\TestCase;
use Tarry\BadSignature;
use Tarry\Signature;

final class SignatureTest extends TestCase
{
    private const NOW = 1767225600;
    private const BODY = '{"order":1001}';

    private static function secret(string $key = 'a secret'): string
    {
        return 'whsec_' . base64_encode($key);
    }

    private static function sign(string $key = 'a secret', int $at = self::NOW, string $body = self::BODY): string
    {
        return 'v1,' . base64_encode(hash_hmac('sha256', "msg.$at.$body", $key, true));
    }

    /**
     * @dataProvider cases
     * @param string|list<string> $secrets
     */
    public function testCallbacksAreVerified(bool $isRight, string|array $secrets, string $signature, string $stamp): void
    {
        $headers = [
            'Webhook-Id' => 'msg', 'WEBHOOK-TIMESTAMP' => $stamp, 'webhook-signature' => [$signature],
            'Tarry-Topic' => 't', 'Tarry-Id' => '1001', 'Tarry-Meta-who' => 'me', 'Tarry-Attempt' => '2',
        ];
        if (!$isRight) {
            $this->expectException(BadSignature::class);
        }
        $job = Signature::verify($secrets, $headers, self::BODY, self::NOW);
        self::assertSame(['t', '1001', 2, ['who' => 'me']], [$job->topic, $job->id, $job->attempt, $job->meta]);
        self::assertSame(['order' => 1001], $job->json());
    }

    /** @return array<string, array{bool, string|list<string>, string, string}> */
    public static function cases(): array
    {
        $now = (string) self::NOW;
        return [
            'right' => [true, self::secret(), self::sign(), $now],
            'without prefix' => [true, base64_encode('a secret'), self::sign(), $now],
            'the second secret' => [true, [self::secret('old'), self::secret()], self::sign(), $now],
            'the second signature' => [true, self::secret(), 'v1,AAAA ' . self::sign(), $now],
            'late' => [true, self::secret(), self::sign(at: self::NOW - 300), (string) (self::NOW - 300)],
            'too late' => [false, self::secret(), self::sign(at: self::NOW - 301), (string) (self::NOW - 301)],
            'too early' => [false, self::secret(), self::sign(at: self::NOW + 301), (string) (self::NOW + 301)],
            'another secret' => [false, self::secret('other'), self::sign(), $now],
            'another body' => [false, self::secret(), self::sign(body: 'x'), $now],
            'no signature' => [false, self::secret(), '', $now],
            'no stamp' => [false, self::secret(), self::sign(), ''],
            'a stamp with more' => [false, self::secret(), self::sign(), "$now\n"],
        ];
    }

    public function testASecretThatIsNoBase64IsAMistake(): void
    {
        $this->expectException(\InvalidArgumentException::class);
        Signature::verify('whsec_!', ['webhook-timestamp' => (string) self::NOW], '', self::NOW);
    }
}
