<?php

return require getenv('TRY_QUEUE'); // that of docs/frameworks.md
