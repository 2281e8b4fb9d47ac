// quic-go with its defaults (CUBIC; receive windows that grow to 6 and 15 MB).
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"

	"github.com/quic-go/quic-go"

	"rampmeter/bench/wire/wire"
)

var protocols = []string{"wire"}

func main() {
	wire.Peer{Name: "quic-go", Serve: serve, Connect: connect}.Run()
}

func serve(address string, certificate tls.Certificate) error {
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: protocols}
	listener, err := quic.ListenAddr(address, config, nil)
	if err != nil {
		return err
	}
	for {
		connection, err := listener.Accept(context.Background())
		if err != nil {
			return err
		}
		go func() {
			if stream, err := connection.AcceptStream(context.Background()); err == nil {
				wire.Send(stream)
			}
		}()
	}
}

func connect(address string, roots *x509.CertPool, _ []string) (io.ReadWriter, error) {
	config := &tls.Config{RootCAs: roots, ServerName: wire.Name, NextProtos: protocols}
	connection, err := quic.DialAddr(context.Background(), address, config, nil)
	if err != nil {
		return nil, err
	}
	return connection.OpenStream()
}
