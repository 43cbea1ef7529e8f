<?php

declare(strict_types=1);

namespace Tarry;

/** A directory that all producers and consumers share. The files are synced to the disk. */
final readonly class DirectoryStore implements Store
{
    public function __construct(private string $path)
    {
    }

    public function put(string $name, string $data): void
    {
        $temporary = "$this->path/.$name";
        $before = umask(0o177);
        $file = @fopen($temporary, 'x');
        umask($before);
        $isDone = $file !== false && fwrite($file, $data) === strlen($data) && fsync($file) && fclose($file);
        if (!$isDone || !rename($temporary, "$this->path/$name")) {
            throw new \RuntimeException("cannot write into the directory '$this->path'");
        }
    }

    public function get(string $name): ?string
    {
        $file = "$this->path/$name";
        $found = @file_get_contents($file);
        clearstatcache(true, $file);
        return $found === false ? (file_exists($file) ? throw new \RuntimeException("cannot read '$file'") : null) : $found;
    }

    public function delete(string $name): void
    {
        $file = "$this->path/$name";
        clearstatcache(true, $file);
        if (!@unlink($file) && file_exists($file)) {
            throw new \RuntimeException("cannot delete '$file'");
        }
    }
}
