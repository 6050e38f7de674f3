package main

import (
	"os"

	"github.com/berth-scheduler/berth/cmd/berth/app"
)

// version is set by the linker (-X main.version=…).
var version = ""

func main() { os.Exit(app.Main(app.WithVersion(version))) }
