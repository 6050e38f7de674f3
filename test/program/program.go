package program

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main runs a program with its arguments, under a context that ends with the first SIGINT or SIGTERM; a second one
// kills it. An error is told in one line, after the program's name, and makes the exit code 1.
func Main(name string, run func(ctx context.Context, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
