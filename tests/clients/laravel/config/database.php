<?php

return [
    'default' => 'sqlite',
    'connections' => [
        'sqlite' => ['driver' => 'sqlite', 'database' => getenv('TRY_STORAGE') . '/database.sqlite', 'prefix' => ''],
    ],
    'migrations' => 'migrations',
];
