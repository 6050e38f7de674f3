package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	certutil "k8s.io/client-go/util/cert"

	"github.com/berth-scheduler/berth/tools/cluster/internal/pki"
)

// answerWithin bounds one question; the caller asks again.
const answerWithin = 5 * time.Second

// Insecure returns a client for servers that speak plain HTTP, or whose
// certificate is their own affair: a health check carries no secret.
func Insecure() *http.Client {
	return client(&tls.Config{InsecureSkipVerify: true}) //nolint:gosec // loopback health check, see above
}

// Mutual returns a client that authenticates with the pair and trusts caFile.
func Mutual(caFile string, pair pki.Pair) (*http.Client, error) {
	roots, err := certutil.NewPool(caFile)
	if err != nil {
		return nil, err
	}
	cert, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		return nil, err
	}
	return client(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}}), nil
}

// OK returns nil if the URL answers with status 200.
func OK(ctx context.Context, client *http.Client, url string) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 2048))
	return errors.Join(fmt.Errorf("%s answers %s: %s", url, response.Status, body), err)
}

func client(config *tls.Config) *http.Client {
	return &http.Client{
		Timeout:   answerWithin,
		Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true},
	}
}
