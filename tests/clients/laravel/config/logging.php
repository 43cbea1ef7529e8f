<?php

return ['default' => 'none', 'channels' => ['none' => ['driver' => 'monolog', 'handler' => Monolog\Handler\NullHandler::class]]];
