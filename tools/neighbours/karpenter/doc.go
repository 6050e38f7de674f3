// Package karpenter pins Karpenter with its provider for simulated nodes. The driver of local clusters builds it.
package karpenter
