package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Collector is a running receiver of traces: the OpenTelemetry collector's (tools/collector).
type Collector struct {
	*Process
	// GRPC and HTTP are where it listens.
	GRPC, HTTP string
	out        string
}

// Span is one span as the receiver wrote it, in OTLP's JSON.
type Span struct {
	TraceID, SpanID, ParentSpanID, Name string
	Links                               []struct{ TraceID, SpanID string }
	Attributes                          []Attribute
	// Service is the resource's service.name.
	Service string `json:"-"`
}

// Attribute of a span or a resource; of the values only text is read.
type Attribute struct {
	Key   string
	Value struct{ StringValue string }
}

// Attribute is the text of one attribute.
func (s Span) Attribute(key string) string { return textOf(s.Attributes, key) }

func textOf(list []Attribute, key string) string {
	for _, a := range list {
		if a.Key == key {
			return a.Value.StringValue
		}
	}
	return ""
}

// Collect starts a collector that writes below dir.
func (p Programs) Collect(ctx context.Context, dir string) (*Collector, error) {
	c := &Collector{out: filepath.Join(dir, "traces.jsonl")}
	var err error
	if c.GRPC, err = FreeAddress(); err != nil {
		return nil, err
	}
	if c.HTTP, err = FreeAddress(); err != nil {
		return nil, err
	}
	path := filepath.Join(p.Root, ".build", "bin", "collector")
	if _, err = os.Stat(path); err != nil {
		return nil, fmt.Errorf("%w: run `make e2e`", err)
	}
	if c.Process, err = start(dir, "collector", path, "-grpc", c.GRPC, "-http", c.HTTP, "-out", c.out); err != nil {
		return nil, err
	}
	return c, Eventually(ctx, readyWithin, "the collector receives", func(context.Context) (string, error) {
		if _, err := os.Stat(c.out); err != nil {
			return err.Error(), c.Ended()
		}
		return "", nil
	})
}

// Spans are those received so far.
func (c *Collector) Spans() ([]Span, error) {
	file, err := os.Open(c.out)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	var spans []Span
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return spans, nil // the last line is not complete yet
		}
		more, err := spansOf(line)
		if err != nil {
			return nil, errors.Join(errors.New("traces.jsonl"), err)
		}
		spans = append(spans, more...)
	}
}

func spansOf(line []byte) ([]Span, error) {
	var batch struct {
		ResourceSpans []struct {
			Resource   struct{ Attributes []Attribute }
			ScopeSpans []struct{ Spans []Span }
		}
	}
	if err := json.Unmarshal(line, &batch); err != nil {
		return nil, err
	}
	var spans []Span
	for _, r := range batch.ResourceSpans {
		service := textOf(r.Resource.Attributes, "service.name")
		for _, scope := range r.ScopeSpans {
			for _, span := range scope.Spans {
				span.Service = service
				spans = append(spans, span)
			}
		}
	}
	return spans, nil
}
