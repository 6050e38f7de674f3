package program

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Run runs a program with its arguments, under a context that ends with the first SIGINT or SIGTERM; a second one
// kills it. It returns the exit code: 1 for an error, which is told in one line, after the program's name.
func Run(name string, run func(ctx context.Context, args []string) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}
