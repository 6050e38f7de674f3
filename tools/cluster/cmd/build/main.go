// Command build builds the programs of the local cluster, the driver
// included, and shows how far it is.
//
// It is what a Makefile starts with "go run ./cmd/build NAME..." when there is
// no driver yet: it needs nothing but the standard library. Afterwards
// "cluster build NAME..." does the same.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/berth-scheduler/berth/tools/cluster/internal/build"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("nothing to build: name one or more of %s", strings.Join(build.Names(), ", "))
	}
	targets, err := build.Select(names)
	if err != nil {
		return err
	}
	layout, err := build.FindLayout()
	if err != nil {
		return err
	}
	return build.Builder{Layout: layout, Out: os.Stderr}.Build(ctx, targets)
}
