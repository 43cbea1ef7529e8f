<?php

declare(strict_types=1);

namespace Tarry;

/**
 * Values as the API has them.
 *
 * @internal
 */
final class Format
{
    private const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
    private const JSON = JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES
        | JSON_PRESERVE_ZERO_FRACTION;

    /** A ULID: 48 bits of milliseconds and 80 random ones. */
    public static function newId(): string
    {
        $milliseconds = (int) (microtime(true) * 1000);
        $id = '';
        for ($shift = 45; $shift >= 0; $shift -= 5) {
            $id .= self::CROCKFORD[$milliseconds >> $shift & 31];
        }
        foreach (str_split(random_bytes(16)) as $byte) {
            $id .= self::CROCKFORD[ord($byte) & 31];
        }
        return $id;
    }

    public static function seconds(int|float|\DateInterval $duration): float
    {
        if (!$duration instanceof \DateInterval) {
            return (float) $duration;
        }
        $now = new \DateTimeImmutable('now', new \DateTimeZone('UTC'));
        $then = $now->add($duration);
        return $then->getTimestamp() - $now->getTimestamp() + ((int) $then->format('u') - (int) $now->format('u')) / 1e6;
    }

    /** Rounded up: never early. */
    public static function milliseconds(int|float|\DateInterval $duration): string
    {
        return self::up(self::seconds($duration) * 1000) . 'ms';
    }

    /** A number is seconds since 1970. */
    public static function moment(int|float|\DateTimeInterface $at): string
    {
        if (!$at instanceof \DateTimeInterface) {
            return self::up($at * 1000);
        }
        return (string) ($at->getTimestamp() * 1000 + (int) ceil((int) $at->format('u') / 1000));
    }

    private static function up(float $number): string
    {
        return sprintf('%.0f', ceil(round($number, 4)));
    }

    public static function time(mixed $text): ?\DateTimeImmutable
    {
        return is_string($text) ? new \DateTimeImmutable($text) : null;
    }

    /**
     * A string goes as it is: as text where it is UTF-8, else as bytes. Anything else becomes JSON.
     *
     * @return array{string, string} the bytes and the content type
     */
    public static function body(mixed $body, ?string $contentType = null): array
    {
        if (!is_string($body)) {
            return [self::json($body), $contentType ?? 'application/json'];
        }
        $isText = preg_match('//u', $body) === 1;
        return [$body, $contentType ?? ($isText ? 'text/plain; charset=utf-8' : 'application/octet-stream')];
    }

    /**
     * The bytes for the server, and their content type.
     *
     * @return array{string, string}
     */
    public static function encoded(
        ?Codec $codec,
        mixed $body,
        ?string $contentType,
        string $part = 'body',
        bool $isSteady = false,
    ): array {
        [$data, $type] = self::body($body, $contentType);
        return $codec === null ? [$data, $type] : $codec->encode($data, $type, $part, $isSteady);
    }

    public static function json(mixed $value): string
    {
        return json_encode($value, self::JSON);
    }

    /**
     * The members of an answer with this result.
     *
     * @return array<string, string>
     */
    public static function result(mixed $result, ?string $contentType = null, ?Codec $codec = null): array
    {
        if ($result === null) {
            return [];
        }
        [$data, $type] = self::encoded($codec, $result, $contentType, 'result');
        return ['result_base64' => base64_encode($data), 'result_type' => $type];
    }

    /** HOST:PID, of 64 printable ASCII characters at most. */
    public static function consumer(string $host, int $pid): string
    {
        return substr((string) preg_replace('/[^!-~]/', '', $host), 0, 63 - strlen((string) $pid)) . ":$pid";
    }

    /** Makes one line of at most so many bytes, without control characters or half a character. */
    public static function line(string $text, int $most = 200): string
    {
        $text = htmlspecialchars_decode(htmlspecialchars($text, ENT_NOQUOTES | ENT_SUBSTITUTE, 'UTF-8'), ENT_NOQUOTES);
        $line = substr((string) preg_replace('/[\p{C}\p{Zl}\p{Zp}]/u', ' ', $text), 0, $most);
        while ($line !== '' && preg_match('//u', $line) !== 1) {
            $line = substr($line, 0, -1);
        }
        return $line;
    }
}
