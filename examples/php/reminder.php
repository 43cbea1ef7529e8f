<?php

/** A reminder for a meeting that is moved: php reminder.php [SECONDS], 3600 by default. */

declare(strict_types=1);

require __DIR__ . '/../../clients/php/autoload.php'; // of yours: vendor/autoload.php

use Tarry\Client;
use Tarry\Job;
use Tarry\Worker;

$delay = (float) ($argv[1] ?? 3600);
$client = new Client();

$remind = function (Job $job): void {
    echo "reminder: {$job->text()}\n";
};

$now = microtime(true);
$client->push('reminders', 'meeting with Ada', id: 'meeting-7', at: $now + 24 * $delay);
echo "reminder set\n";
$client->reschedule('reminders', 'meeting-7', at: $now + $delay);
echo "meeting moved, reminder moved\n";
$worker = new Worker($client, 'reminders', $remind, onDone: function () use (&$worker): void {
    $worker->stop(); // your own worker runs until SIGTERM
});
$worker->run();
