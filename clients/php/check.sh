#!/usr/bin/env bash
# Syntax, style, types where phpstan is here, unit tests, and the Composer package: built, installed into an empty project, and used
# against the server at TARRY_URL.
set -euo pipefail
cd "$(dirname "$0")"
rm -rf build/dist
mkdir -p build/dist
for file in autoload.php conformance.php src/*.php laravel/src/*.php tests/*.php; do
    php -l "$file" >/dev/null || { php -l "$file"; exit 1; }
done
if command -v phpcs >/dev/null; then phpcs -q; else echo "not run: phpcs is not here (Debian: php-codesniffer)"; fi
if command -v phpstan >/dev/null; then phpstan analyse --no-progress; else echo "not run: phpstan is not here"; fi
phpunit
export COMPOSER_ALLOW_SUPERUSER=1 COMPOSER_NO_INTERACTION=1
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export COMPOSER_HOME="$place/composer"
composer validate --strict --no-check-version --no-check-publish --quiet
composer validate --strict --no-check-version --no-check-publish --no-check-all --quiet laravel/composer.json
composer archive --quiet --format=tar --dir=build/dist
package=$(echo "$PWD"/build/dist/tarry-client-*.tar)
mkdir "$place/project"
cd "$place/project"
php -r '
$package = json_decode(file_get_contents($argv[1]), true);
$package["dist"] = ["type" => "tar", "url" => "file://$argv[2]"];
$repositories = [["type" => "package", "package" => $package], ["packagist.org" => false]];
file_put_contents("composer.json", json_encode(["repositories" => $repositories, "require" => ["tarry/client" => $package["version"]]]));
' "$OLDPWD/composer.json" "$package"
composer install --quiet
cat >try.php <<'PHP'
<?php

require 'vendor/autoload.php';

$client = new Tarry\Client();
$client->push('package', ['order' => 1001], id: '1001');
[$job] = $client->take('package', wait: 5);
$found = [$job->id, $job->json(), $client->ack($job->lease)];
exit($found === ['1001', ['order' => 1001], [null]] ? 0 : 1);
PHP
php try.php
echo "the package works"
