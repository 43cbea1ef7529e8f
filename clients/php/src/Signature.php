<?php

declare(strict_types=1);

namespace Tarry;

/** Verification that a callback was sent by one's own server: Standard Webhooks. */
final class Signature
{
    private const TOLERANCE = 300; // seconds, either way

    /**
     * The job of a callback. The signature covers id, time and body; trust the other headers, and so the job's topic
     * and id, only on https.
     *
     * @param string|array<string> $secrets one or several (while they change), as in the policy file
     * @param array<string, string|array<string>> $headers as getallheaders() or PSR-7 have them
     * @param string $body as it came: file_get_contents('php://input')
     * @throws BadSignature
     */
    public static function verify(string|array $secrets, array $headers, string $body, int|float|null $now = null): Job
    {
        $found = [];
        foreach ($headers as $name => $value) {
            $found[strtolower((string) $name)] = is_array($value) ? implode(' ', $value) : $value;
        }
        [$message, $stamp] = [$found['webhook-id'] ?? '', $found['webhook-timestamp'] ?? ''];
        if (preg_match('/^[0-9]{1,15}$/D', $stamp) !== 1 || abs(($now ?? time()) - (int) $stamp) > self::TOLERANCE) {
            throw new BadSignature('the time stamp is missing or too far away');
        }
        $isRight = false;
        foreach ((array) $secrets as $secret) {
            $key = base64_decode(preg_replace('/^whsec_/', '', $secret) ?? '', true);
            if ($key === false || $key === '') {
                throw new \InvalidArgumentException('a secret is not base64, give it as in the policy file');
            }
            $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$message.$stamp.$body", $key, true));
            foreach (explode(' ', $found['webhook-signature'] ?? '') as $signature) {
                $isRight = hash_equals($expected, $signature) || $isRight;
            }
        }
        if (!$isRight) {
            throw new BadSignature('no signature is right');
        }
        return self::job($found, $body);
    }

    /** @param array<string, string> $found */
    private static function job(array $found, string $body): Job
    {
        $meta = [];
        foreach ($found as $name => $value) {
            if (str_starts_with($name, 'tarry-meta-')) {
                $meta[substr($name, strlen('tarry-meta-'))] = $value;
            }
        }
        return new Job(
            topic: $found['tarry-topic'] ?? '',
            id: $found['tarry-id'] ?? '',
            body: $body,
            contentType: $found['content-type'] ?? 'application/octet-stream',
            meta: $meta,
            attempt: (int) ($found['tarry-attempt'] ?? 0),
            delivery: (int) ($found['tarry-delivery'] ?? 0),
        );
    }
}
