module tarry.io/tarry/tests/imports/kubernetes

go 1.25

require github.com/robfig/cron/v3 v3.0.1
