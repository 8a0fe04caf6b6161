package main

import (
	"context"
	"fmt"
)

// topUp puts more units up. No answer, or a refusal, is no failure of the lever: what was released is in the database.
func topUp(ctx context.Context, s *scene, p pull) (letGo, error) {
	s.addStock(ctx, "+", p)
	return nil, nil
}

// takeBack takes some units away, if so many are left.
func takeBack(ctx context.Context, s *scene, p pull) (letGo, error) {
	s.addStock(ctx, "-", p)
	return nil, nil
}

func (s *scene) addStock(ctx context.Context, sign string, p pull) {
	delta := units(p.n)
	if sign == "-" {
		delta = "-" + delta
	}
	_, _ = s.operate(ctx, s.instances[p.app], "POST", "/api/v1/sales/"+s.sale+"/stock", fmt.Sprintf(`{"delta":%s,"reason":"chaos"}`, delta))
}

// pauseSale pauses it, if the instance can be reached, and resumes it in any case.
func pauseSale(ctx context.Context, s *scene, p pull) (letGo, error) {
	_, _ = s.operate(ctx, s.instances[p.app], "POST", "/api/v1/sales/"+s.sale+"/pause", "")
	return func(ctx context.Context) error {
		a, err := s.operate(ctx, s.instances[p.app], "POST", "/api/v1/sales/"+s.sale+"/resume", "")
		if err == nil && a.status != 200 {
			err = fmt.Errorf("%d %s", a.status, a.text)
		}
		return err
	}, nil
}
