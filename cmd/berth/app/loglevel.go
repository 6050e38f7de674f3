package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/cmd/berth/internal/serve"
)

// levelTimeout bounds the whole exchange with a process.
const levelTimeout = 10 * time.Second

// newLogLevelCommand returns the command `berth log-level`. It contacts the HTTP port of one process, directly: for a
// process in a cluster, on its pod or through kubectl port-forward. Without client certificates a process lets only
// its own machine change the level (package serve).
//
// The exit code is 1 if the process does not answer, refuses the client, or does not know the level.
func newLogLevelCommand() *cobra.Command {
	var address string
	var tls rest.TLSClientConfig
	cmd := &cobra.Command{
		Use:   "log-level [debug | info | warn | error]",
		Short: "Print or change the log level of a running process",
		Long: "Prints the log level of the process that serves --http-address, or changes it until the process exits; its\n" +
			"flags are not changed. A number is a klog verbosity, as for kube-scheduler: 4 or more is debug. The\n" +
			"command is equivalent to a GET or PUT of " + serve.LevelPath + ".",
		Example: "  berth log-level debug\n  berth log-level info --http-address 127.0.0.1:10353",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			answer, err := logLevel(cmd.Context(), address, tls, strings.Join(args, ""))
			if err == nil {
				_, err = io.WriteString(cmd.OutOrStdout(), answer)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&address, "http-address", "127.0.0.1:10351", "address of the process: its --http-address")
	f.StringVar(&tls.CAFile, "http-ca-file", "",
		"CA certificates (PEM) that verify --http-address; without them, plain HTTP")
	f.StringVar(&tls.CertFile, "http-cert-file", "", "client certificate (PEM), if the process requires one")
	f.StringVar(&tls.KeyFile, "http-key-file", "", "key (PEM) of --http-cert-file")
	return cmd
}

// logLevel reads the level, or changes it if one is given. It uses HTTPS if a CA is given, and otherwise plain HTTP.
// It returns the answer of the process, which ends in a newline.
func logLevel(ctx context.Context, address string, tls rest.TLSClientConfig, level string) (string, error) {
	transport, err := rest.TransportFor(&rest.Config{TLSClientConfig: tls})
	if err != nil {
		return "", fmt.Errorf("--http-ca-file, --http-cert-file, --http-key-file: %w", err)
	}
	// A CA means that the process serves HTTPS: there is no other way to verify it.
	scheme, method := "http://", http.MethodGet
	if tls.CAFile != "" {
		scheme = "https://"
	}
	if level != "" {
		method = http.MethodPut
	}
	req, err := http.NewRequestWithContext(ctx, method, scheme+address+serve.LevelPath, strings.NewReader(level))
	if err != nil {
		return "", fmt.Errorf("--http-address: %w", err)
	}
	resp, err := (&http.Client{Transport: transport, Timeout: levelTimeout}).Do(req)
	if err != nil {
		return "", fmt.Errorf("--http-address: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // read to the end
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", fmt.Errorf("--http-address: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("log-level: %s", strings.TrimSpace(string(body)))
	}
	return string(body), nil
}
