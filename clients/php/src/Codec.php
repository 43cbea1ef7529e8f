<?php

declare(strict_types=1);

namespace Tarry;

/**
 * The codec of bodies and results between the program and the server: compression, encryption, storage elsewhere, in this
 * order. docs/codec.md has the format.
 *
 *     new Codec(gzip: new Gzip(), aesGcm: new AesGcm('2026-11', ['2026-11' => $key]))
 */
final readonly class Codec
{
    private const ENCODED = 'application/vnd.tarry.encoded';
    private const GZIP = 'gzip';
    private const AES_GCM = 'aes-gcm';
    private const CLAIM_CHECK = 'claim-check';
    private const ORDER = [self::GZIP, self::AES_GCM, self::CLAIM_CHECK];

    /**
     * @param string $context such as the name of a service; it must be the same for those that encrypt and decrypt: data of
     * another context is rejected
     */
    public function __construct(
        private ?Gzip $gzip = null,
        private ?AesGcm $aesGcm = null,
        private ?ClaimCheck $claimCheck = null,
        private string $context = '',
    ) {
    }

    /**
     * Returns the bytes for the server, and their content type.
     *
     * @param string $part body or result
     * @param bool $isSteady for schedules: equal data has equal bytes and is never stored elsewhere
     * @param string|null $nonce for tests
     * @return array{string, string}
     */
    public function encode(
        string $data,
        string $contentType,
        string $part = 'body',
        bool $isSteady = false,
        ?string $nonce = null,
    ): array {
        if (strlen($contentType) > 255) {
            throw CodecError::because('the content type has more than 255 bytes');
        }
        $steps = [];
        $out = chr(strlen($contentType)) . $contentType . $data;
        if ($this->gzip !== null && strlen($data) >= $this->gzip->above) {
            $packed = (string) gzencode($out);
            if (strlen($packed) < strlen($out)) {
                [$steps[], $out] = [self::GZIP, $packed];
            }
        }
        if ($this->aesGcm !== null) {
            $steps[] = self::AES_GCM;
            $out = $this->aesGcm->encrypt($out, $this->bound($part, $steps, $this->aesGcm->current), $isSteady, $nonce);
        }
        if ($this->claimCheck !== null && !$isSteady && strlen($out) > $this->claimCheck->above) {
            $name = bin2hex(random_bytes(16));
            $this->claimCheck->store->put($name, $out);
            [$steps[], $out] = [self::CLAIM_CHECK, $name];
        }
        if ($steps === []) {
            return [$data, $contentType];
        }
        $key = $this->aesGcm === null ? '' : "; key={$this->aesGcm->current}";
        return [$out, self::ENCODED . '; steps=' . implode('+', $steps) . $key];
    }

    /**
     * Returns the bytes and the content type as they were before encode(). Data that is not encoded stays as it is.
     *
     * @return array{string, string}
     */
    public function decode(string $data, string $contentType, string $part = 'body'): array
    {
        if (!self::isEncoded($contentType)) {
            return [$data, $contentType];
        }
        [$steps, $key] = self::stepsOf($contentType, $part);
        if (in_array(self::CLAIM_CHECK, $steps, true)) {
            array_pop($steps);
            $data = $this->fetch($data, $part);
        }
        if (in_array(self::AES_GCM, $steps, true)) {
            $why = "the $part is encrypted with the key '$key', and the codec has no keys";
            $aesGcm = $this->aesGcm ?? throw CodecError::because($why);
            $data = $aesGcm->decrypt($data, $this->bound($part, $steps, $key), $key, $part);
        }
        if (in_array(self::GZIP, $steps, true)) {
            $data = Gzip::inflate($data, $this->gzip->inflated ?? Gzip::INFLATED_BYTES, $part);
        }
        if ($data === '' || strlen($data) <= ord($data[0])) {
            throw CodecError::because("the $part is too short");
        }
        $end = 1 + ord($data[0]);
        return [substr($data, $end), substr($data, 1, $end - 1)];
    }

    /** Deletes the stored body of an acked job, if it has one. A worker does this itself. */
    public function deleteStored(Job $job): void
    {
        if ($job->storedAs !== null && $this->claimCheck?->delete) {
            $this->claimCheck->store->delete($job->storedAs);
        }
    }

    /** @internal */
    public static function isEncoded(?string $contentType): bool
    {
        return trim(explode(';', (string) $contentType, 2)[0]) === self::ENCODED;
    }

    /**
     * The name of a body in the store; null if the body is not stored there.
     *
     * @internal
     */
    public static function storedAs(string $body, string $contentType): ?string
    {
        $isStored = self::isEncoded($contentType) && preg_match('/[=+]claim-check(;|\z)/', $contentType) === 1;
        return $isStored && self::isName($body) ? $body : null;
    }

    private static function isName(string $name): bool
    {
        return preg_match('/\A[0-9a-f]{32}\z/', $name) === 1;
    }

    /**
     * Decodes a part of a job by the codec, which is null if the client has none.
     *
     * @return array{string, string}
     * @internal
     */
    public static function decodePart(?self $codec, string $data, string $contentType, string $part): array
    {
        if ($codec === null) {
            $steps = implode(', ', self::stepsOf($contentType, $part)[0]);
            throw CodecError::because("the $part is encoded ($steps), and the client has no codec");
        }
        return $codec->decode($data, $contentType, $part);
    }

    /**
     * The steps in the order of their application, and the id of the key.
     *
     * @return array{list<string>, string}
     */
    private static function stepsOf(string $contentType, string $part): array
    {
        $members = [];
        foreach (array_slice(explode(';', $contentType), 1) as $one) {
            [$name, $value] = [...explode('=', trim($one), 2), ''];
            $members[$name] = $value;
        }
        [$steps, $key] = [explode('+', $members['steps'] ?? ''), $members['key'] ?? ''];
        foreach (array_diff($steps, self::ORDER) as $unknown) {
            throw CodecError::because("the $part has the step '$unknown', which the codec does not have");
        }
        $isInOrder = $steps === array_values(array_intersect(self::ORDER, $steps));
        if (!$isInOrder || in_array(self::AES_GCM, $steps, true) !== AesGcm::isId($key)) {
            throw CodecError::because("the content type of the $part is not valid");
        }
        return [$steps, $key];
    }

    /**
     * Returns the additional data that is authenticated.
     *
     * @param array<string> $steps
     */
    private function bound(string $part, array $steps, string $key): string
    {
        return implode("\n", ['tarry-codec 1', $part, implode('+', $steps), $key, $this->context]);
    }

    private function fetch(string $name, string $part): string
    {
        $store = $this->claimCheck?->store
            ?? throw CodecError::because("the $part is stored elsewhere, and the codec has no store");
        if (!self::isName($name)) {
            throw CodecError::because("the $part is stored elsewhere, but its name is not valid");
        }
        try {
            $found = $store->get($name);
        } catch (\Throwable $fault) {
            throw CodecError::because("the $part is stored elsewhere as '$name' and cannot be read: {$fault->getMessage()}");
        }
        return $found ?? throw CodecError::because("the $part is stored elsewhere as '$name', which the store does not have");
    }
}
