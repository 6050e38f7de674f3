module github.com/berth-scheduler/berth/tools/site

go 1.26.0

require golang.org/x/net v0.57.0
