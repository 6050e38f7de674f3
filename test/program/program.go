package program

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
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

// Choice returns what the value of a flag chooses, separated by commas, from all that there is.
func Choice(flag, value string, all []string) ([]string, error) {
	chosen := strings.Split(value, ",")
	for _, name := range chosen {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("--%s: %q: want some of %s", flag, name, strings.Join(all, ", "))
		}
	}
	return chosen, nil
}
