module tarry.io/tarry/tests/imports/river

go 1.25

require (
	github.com/riverqueue/river v0.51.2
	github.com/robfig/cron/v3 v3.0.1
)
