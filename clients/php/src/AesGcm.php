<?php

declare(strict_types=1);

namespace Tarry;

/**
 * Encrypts with AES-256-GCM under the key `current`, and decrypts with each of the keys: 32 bytes, or these in base64, by
 * their ids. Needs the extension openssl.
 */
final class AesGcm
{
    private const CIPHER = 'aes-256-gcm';
    private const KEY_BYTES = 32;
    private const NONCE_BYTES = 12;
    private const TAG_BYTES = 16;

    /** @var array<string, string> */
    private array $keys = [];

    /** @param array<string, string> $keys */
    public function __construct(public readonly string $current, #[\SensitiveParameter] array $keys)
    {
        foreach ($keys as $id => $key) {
            $id = (string) $id;
            $bytes = strlen($key) === self::KEY_BYTES ? $key : (base64_decode($key, true) ?: $key);
            if (!self::isId($id)) {
                throw new \InvalidArgumentException("bad id of a key '$id', give 1 to 32 letters, digits, dots, underscores and hyphens");
            }
            if (strlen($bytes) !== self::KEY_BYTES) {
                throw new \InvalidArgumentException("the key '$id' has " . strlen($bytes) . ' bytes, give ' . self::KEY_BYTES);
            }
            $this->keys[$id] = $bytes;
        }
        if (!isset($this->keys[$current])) {
            throw new \InvalidArgumentException("there is no key '$current', add it to the keys");
        }
    }

    /** @internal */
    public static function isId(string $id): bool
    {
        return preg_match('/\A[A-Za-z0-9._-]{1,32}\z/', $id) === 1;
    }

    /**
     * @param bool $isSteady equal data has equal bytes, so that the same schedule again changes nothing
     * @internal
     */
    public function encrypt(string $data, string $bound, bool $isSteady, ?string $nonce = null): string
    {
        $key = $this->keys[$this->current];
        $nonce ??= $isSteady ? self::nonceOf($key, "$bound\n$data") : random_bytes(self::NONCE_BYTES);
        $tag = '';
        $text = openssl_encrypt($data, self::CIPHER, $key, OPENSSL_RAW_DATA, $nonce, $tag, $bound, self::TAG_BYTES);
        return is_string($text) && is_string($tag) ? $nonce . $text . $tag : throw new \RuntimeException('AES-GCM fails');
    }

    private static function nonceOf(string $key, string $data): string
    {
        $nonceKey = hash_hmac('sha256', 'tarry-codec nonce', $key, true);
        return substr(hash_hmac('sha256', $data, $nonceKey, true), 0, self::NONCE_BYTES);
    }

    /** @internal */
    public function decrypt(string $data, string $bound, string $id, string $part): string
    {
        $key = $this->keys[$id]
            ?? throw CodecError::because("the $part is encrypted with the key '$id', which the codec does not have");
        $bytes = strlen($data) - self::NONCE_BYTES - self::TAG_BYTES;
        if ($bytes < 0) {
            throw CodecError::because("the $part is too short to be encrypted");
        }
        $text = substr($data, self::NONCE_BYTES, $bytes);
        $nonce = substr($data, 0, self::NONCE_BYTES);
        $plain = openssl_decrypt($text, self::CIPHER, $key, OPENSSL_RAW_DATA, $nonce, substr($data, -self::TAG_BYTES), $bound);
        $why = "the $part cannot be decrypted with the key '$id': it was changed, or has another context";
        return $plain === false ? throw CodecError::because($why) : $plain;
    }

    /** @return array<string, mixed> without the keys */
    public function __debugInfo(): array
    {
        return ['current' => $this->current, 'keys' => array_keys($this->keys)];
    }
}
