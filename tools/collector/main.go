// Command collector receives traces by OTLP, with the OpenTelemetry collector's own receiver, and appends every batch
// as one line of OTLP JSON to a file. Tests of traces send to it, because it implements the protocol independently of
// Berth. It runs until it is interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

func main() {
	grpc := flag.String("grpc", "127.0.0.1:4317", "address of OTLP over gRPC")
	http := flag.String("http", "127.0.0.1:4318", "address of OTLP over HTTP")
	out := flag.String("out", "", "file to append to")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, *grpc, *http, *out)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "collector:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, grpc, http, out string) (err error) {
	file, err := os.OpenFile(out, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	sink, err := consumer.NewTraces(writeTo(file))
	if err != nil {
		return err
	}
	factory := otlpreceiver.NewFactory()
	cfg := factory.CreateDefaultConfig()
	conf := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{
		"grpc": map[string]any{"endpoint": grpc}, "http": map[string]any{"endpoint": http},
	}})
	if err := conf.Unmarshal(cfg); err != nil {
		return err
	}
	receiver, err := factory.CreateTraces(ctx, receivertest.NewNopSettings(factory.Type()), cfg, sink)
	if err != nil {
		return err
	}
	if err := receiver.Start(ctx, componenttest.NewNopHost()); err != nil {
		return err
	}
	fmt.Println("ready")
	<-ctx.Done()
	return receiver.Shutdown(context.WithoutCancel(ctx))
}

// writeTo writes one batch at a time.
func writeTo(file *os.File) consumer.ConsumeTracesFunc {
	var mu sync.Mutex
	return func(_ context.Context, traces ptrace.Traces) error {
		line, err := (&ptrace.JSONMarshaler{}).MarshalTraces(traces)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		_, err = file.Write(append(line, '\n'))
		return err
	}
}
