package telemetry

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
)

// CertificateFile is a file of certificates (PEM) that the process was given.
type CertificateFile struct {
	// Connection is the connection that the file is for: etcd, nats or http.
	Connection string
	// Authority reports that the file holds the authorities against which the peer's certificates are verified.
	// Otherwise it holds the certificate of the process.
	Authority bool
	// Path of the file. Empty means that the process was given none.
	Path string
}

// Values of the label kind.
const (
	ownCertificate = "certificate"
	authorities    = "authority"
)

// certificateExpiry is the name of the metric, certificateLabels are its labels.
const certificateExpiry = "berth_certificate_not_after_timestamp_seconds"

// certificateLabels are the labels of the metric, in the order of its values.
var certificateLabels = []string{"connection", "kind"}

// certificates is a collector: files are read for every scrape, so that the metric follows a renewal as the
// connections do, without a restart and without a watch. There are six small files at most.
type certificates struct {
	metrics.BaseStableCollector
	notAfter *metrics.Desc
	mu       struct {
		sync.Mutex
		files []CertificateFile
		// last is the last expiry read from each file: a file that can no longer be read keeps its series, and with
		// it its alert.
		last map[CertificateFile]time.Time
	}
}

// processCertificates is the collector of this process.
var processCertificates = newCertificates()

// newCertificates returns a collector that reads no files yet.
func newCertificates() *certificates {
	c := &certificates{notAfter: metrics.NewDesc(certificateExpiry,
		"Unix time at which a certificate file of this process expires, by connection (etcd, nats, http) and kind: "+
			"certificate is the one that the process presents (the earliest expiry in the file), authority those with which it "+
			"verifies peers (the latest expiry).",
		certificateLabels, nil, metrics.ALPHA, "")}
	c.mu.last = map[CertificateFile]time.Time{}
	return c
}

// watch makes the collector read these files, and no others. Files without a path are left out.
func (c *certificates) watch(files []CertificateFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.files = slices.DeleteFunc(slices.Clone(files), func(f CertificateFile) bool { return f.Path == "" })
	clear(c.mu.last)
}

// DescribeWithStability implements metrics.StableCollector.
func (c *certificates) DescribeWithStability(ch chan<- *metrics.Desc) { ch <- c.notAfter }

// CollectWithStability implements metrics.StableCollector. It reads every file. Scrapes may be concurrent; the lock
// makes them take turns.
func (c *certificates) CollectWithStability(ch chan<- metrics.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.mu.files {
		if expires, ok := f.expires(); ok {
			c.mu.last[f] = expires
		}
		expires, ok := c.mu.last[f]
		if !ok {
			continue
		}
		kind := ownCertificate
		if f.Authority {
			kind = authorities
		}
		ch <- metrics.NewLazyConstMetric(c.notAfter, metrics.GaugeValue, float64(expires.Unix()), f.Connection, kind)
	}
}

// expires returns when the file becomes useless: a certificate chain with the first of its certificates to expire,
// authorities with the last. A file that is being replaced may be half written, and counts as unreadable.
func (f CertificateFile) expires() (at time.Time, ok bool) {
	rest, err := os.ReadFile(f.Path)
	if err != nil {
		return time.Time{}, false
	}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return at, !at.IsZero()
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return time.Time{}, false
		}
		// For a chain the earliest expiry counts: a handshake fails with the first expired certificate. Of several
		// authorities the latest counts: any one of them verifies a peer.
		if at.IsZero() || cert.NotAfter.After(at) == f.Authority {
			at = cert.NotAfter
		}
	}
}
