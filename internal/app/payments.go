package app

import (
	"tandian/internal/kit/api"
	"tandian/internal/payment"
	"tandian/internal/payment/sandbox"
)

// buildPayments fits the ways to pay together. The sandbox is one only where nobody takes it for money: with demo data,
// or by a setting of its own.
func (a *App) buildPayments() error {
	var providers []payment.Provider
	if a.cfg.Demo || a.cfg.PaymentSandbox {
		secret, err := a.backend.secret(sandbox.Name)
		if err != nil {
			return err
		}
		a.sandbox = sandbox.New(sandbox.Options{DB: a.backend.db, Secret: secret, NotifyURL: urlOf(a.public) + api.Prefix + "/payments/" + sandbox.Name + "/notify",
			Now: a.clock.now, NewID: a.clock.newID, Log: a.log})
		providers = append(providers, a.sandbox)
	}
	a.payments = payment.New(payment.Options{DB: a.backend.db, Providers: providers, Orders: a.orders, Now: a.clock.now, Log: a.log,
		Metrics: payment.NewMetrics(a.metrics), Changed: a.orders.Watch.Poke, Ended: a.wakeReleaser})
	a.orders.Payments, a.closer.Payments = a.payments, a.payments
	return nil
}
