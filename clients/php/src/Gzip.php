<?php

declare(strict_types=1);

namespace Tarry;

/** Compresses data of at least `above` bytes, if it becomes smaller. Data that inflates to more than `inflated` bytes is an error. */
final readonly class Gzip
{
    public const INFLATED_BYTES = 64 << 20;
    private const PIECE_BYTES = 4096;

    public function __construct(public int $above = 1024, public int $inflated = self::INFLATED_BYTES)
    {
    }

    /** @internal */
    public static function inflate(string $data, int $most, string $part): string
    {
        $reader = inflate_init(ZLIB_ENCODING_GZIP);
        assert($reader !== false);
        $out = '';
        foreach (str_split($data, self::PIECE_BYTES) as $piece) {
            if (inflate_get_status($reader) === ZLIB_STREAM_END) {
                break;
            }
            $found = @inflate_add($reader, $piece);
            if ($found === false) {
                throw CodecError::because("the $part is not valid gzip");
            }
            $out .= $found;
            if (strlen($out) > $most) {
                throw CodecError::because("the $part inflates to more than $most bytes");
            }
        }
        if (inflate_get_status($reader) !== ZLIB_STREAM_END || inflate_get_read_len($reader) !== strlen($data)) {
            throw CodecError::because("the $part is not valid gzip");
        }
        return $out;
    }
}
